// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_signal.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <sched.h>
#include <string>

#include "tandem/base/error.hpp"
#include "tandem/base/trace.hpp"

#include "base/format.hpp"
#include "device/host/core_offer.hpp"
#include "device/host/futex.hpp"
#include "device/host/host_workers.hpp"
#include "device/host/time_slice.hpp"

namespace tandem {

namespace {

using namespace std::chrono_literals;

// A peer's signal is usually a few microseconds away, less than a sleep costs. If no other thread wants the core, the
// waiter spins and offers the core now and then; else it offers it after every look, which lets the peer progress where
// ranks share cores.
constexpr std::int64_t offer_every_ns = 20'000;
// Then the waiter sleeps. An idle core of a virtual machine may take 0.4 ms to wake up: with less patience than that,
// ranks that have slept once keep putting each other to sleep.
constexpr std::int64_t patience_ns = 1'000'000;
constexpr std::int64_t patience_with_others_ns = 100'000;
constexpr int spins_between_looks = 32;
// Before any of that, it looks, or offers its core, this often without reading the clock: for one or a few µs.
constexpr int first_looks = 32;
constexpr int first_offers = 4;
constexpr unsigned waits_for_a_question = 16;
// An abort is a plain store that wakes nobody, so sleepers check for one this often.
constexpr std::chrono::nanoseconds sleep_slice = 20ms;
constexpr std::size_t line = 64;

std::uint64_t value_of(SignalWord& word) noexcept {
  return std::atomic_ref(word.value).load(std::memory_order_acquire);
}

// Checks once, and may sleep. The sleeper increments `sleepers` before it reads the value; a put writes the value
// before it reads `sleepers`. All of these are sequentially consistent, so no wake-up is lost.
void sleep_on(SignalWord& word, std::uint64_t target, std::chrono::nanoseconds limit) noexcept {
  std::atomic_ref(word.sleepers).fetch_add(1, std::memory_order_seq_cst);
  const std::uint64_t seen = std::atomic_ref(word.value).load(std::memory_order_seq_cst);
  if (seen < target) {
    futex_wait(futex_half(&word.value), static_cast<std::uint32_t>(seen), std::min(limit, sleep_slice),
               FutexScope::shared);
  }
  std::atomic_ref(word.sleepers).fetch_sub(1, std::memory_order_relaxed);
}

void put_signal(const SignalPut& put) noexcept {
  if (!put.counted) ++put.mine->put;
  std::atomic_ref(put.theirs->value).store(put.mine->put, std::memory_order_seq_cst);
  if (std::atomic_ref(put.theirs->sleepers).load(std::memory_order_seq_cst) != 0) {
    futex_wake_all(futex_half(&put.theirs->value), FutexScope::shared);
  }
}

/// A thread with the shortest time slice, which preempts computing threads when it wakes, sleeps instead of offering
/// them its core, since they would keep it for milliseconds. Now and then it offers it, to learn whether it is wanted.
bool sleeps_at_once() noexcept {
  thread_local unsigned waits = 0;
  return has_shortest_time_slice() && ++waits % waits_for_a_question != 0;
}

/// The part of a message after the signal's cache line. If it is a few lines, they are prefetched while the signal is
/// polled, to save a miss after it; with more, that would take lines from the writer before it has filled them.
class MessageRest {
 public:
  MessageRest() = default;
  MessageRest(const std::byte* begin, std::size_t bytes) noexcept : begin_(begin), bytes_(bytes) {}

  void prefetch() const noexcept {
    for (std::size_t at = 0; at < bytes_; at += line) __builtin_prefetch(begin_ + at);
  }
  void prefetch_few() const noexcept {
    if (bytes_ <= few * line) prefetch();
  }

 private:
  static constexpr std::size_t few = 4;
  const std::byte* begin_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Stores `facts` at `place` and returns true, unless another failure was stored there first.
bool report_first(std::uint32_t& state, WaitFailure& place, const WaitFailure& facts) noexcept {
  std::uint32_t none = 0;
  if (!std::atomic_ref(state).compare_exchange_strong(none, 1, std::memory_order_acq_rel)) return false;
  place = facts;
  std::atomic_ref(state).store(2, std::memory_order_release);
  return true;
}

bool comes_at_once(SignalWord& word, std::uint64_t target, const MessageRest& rest) noexcept {
  if (core_is_wanted()) {
    const int offers = sleeps_at_once() ? 0 : first_offers;
    for (int i = 0; i < offers && value_of(word) < target; ++i) offer_core();
  } else {
    for (int i = 0; i < first_looks && value_of(word) < target; ++i) {
      rest.prefetch_few();
      cpu_relax();
    }
  }
  return value_of(word) >= target;
}

std::int64_t patience(bool wanted) noexcept {
  if (!wanted) return patience_ns;
  return has_shortest_time_slice() ? 0 : patience_with_others_ns;
}

[[noreturn]] void throw_lack(const std::string& lack, const WaitFailure& wait) {
  throw DeviceError(format(
      "host device: {}; a wait that may depend on it ended after {} ms, with {} of {} signals of rank {} on channel {}",
      lack, wait.waited_ns / 1'000'000, wait.seen, wait.expected, wait.peer, wait.channel));
}

// The waits of one call share a deadline: `began` is when the first of them had to wait, or 0 if none has yet.
void wait_signal(const SignalWait& wait, WaitControl& control, HostWorkers& workers, std::int64_t& began,
                 const MessageRest& rest = {}) {
  SignalWord& word = *wait.word;
  const std::uint64_t target = word.taken += wait.count;
  if (comes_at_once(word, target, rest)) return;
  const std::int64_t looked_from = Trace::now_ns();
  if (began == 0) began = looked_from;
  std::int64_t offered_at = looked_from;
  while (value_of(word) < target) {
    const std::int64_t now = Trace::now_ns();
    const std::uint64_t waited = static_cast<std::uint64_t>(now - began);
    const std::uint64_t timeout_ns = timeout_of(control);
    const bool ended = aborted(control);
    const bool gone = departed(control, wait.peer);
    if (ended || gone || waited >= timeout_ns) {
      // The signal may have come while this thread was stopped (by a debugger, or with the machine), or just before its
      // peer departed.
      if (!ended && value_of(word) >= target) break;
      const WaitFailure facts{.operation = wait.operation,
                              .peer = wait.peer,
                              .channel = wait.channel,
                              .expected = word.taken,
                              .seen = value_of(word),
                              .waited_ns = waited,
                              .error = 0,
                              .departed = gone,
                              .threw = 0};
      // Another wait of this rank may have reached its deadline, so that its thread is free by now. An abort for any
      // other reason, such as the loss of a rank, is what the caller has to hear of.
      const bool late = !ended || std::atomic_ref(control.failed).load(std::memory_order_acquire) != 0;
      const std::string lack = late && waited >= timeout_ns / 2 ? workers.lack(began) : "";
      if (ended) {
        static_cast<void>(report_first(control.cut_short, control.cut, facts));
      } else if (lack.empty() || gone) {
        fail(control, facts);
      } else {
        fail_after_throw(control);
      }
      if (!lack.empty() && !gone) throw_lack(lack, facts);
      break;
    }
    const bool wanted = core_is_wanted();
    if (!wanted && now - offered_at < offer_every_ns) {
      for (int i = 0; i < spins_between_looks && value_of(word) < target; ++i) cpu_relax();
    } else if (now - looked_from < patience(wanted)) {
      offer_core();
      offered_at = Trace::now_ns();
    } else {
      workers.ask_again();
      const std::uint64_t left = std::min<std::uint64_t>(timeout_ns - waited, std::uint64_t{1} << 40);
      sleep_on(word, target, std::chrono::nanoseconds(static_cast<std::int64_t>(left)));
    }
  }
}

}  // namespace

bool aborted(WaitControl& control) noexcept {
  return std::atomic_ref(control.abort).load(std::memory_order_acquire) != 0;
}

std::uint64_t timeout_of(WaitControl& control) noexcept {
  return std::atomic_ref(control.timeout_ns).load(std::memory_order_relaxed);
}

bool departed(WaitControl& control, int peer) noexcept {
  if (peer < 0 || std::atomic_ref(control.departures).load(std::memory_order_acquire) == 0) return false;
  const auto rank = static_cast<std::uint32_t>(peer);
  std::uint32_t& word = departed_ranks(&control)[rank / ranks_in_a_word];
  return (std::atomic_ref(word).load(std::memory_order_acquire) >> rank % ranks_in_a_word & 1) != 0;
}

void fail(WaitControl& control, const WaitFailure& failure) noexcept {
  if (report_first(control.failed, control.failure, failure)) {
    std::atomic_ref(control.abort).store(1, std::memory_order_release);
    // Full fence: no later store of the stream may become visible before the abort.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return;
  }
  // Another one failed first and is about to abort. The stream must not continue before the abort is visible, or
  // garbage would be taken for a result.
  while (!aborted(control)) ::sched_yield();
}

void fail_after_throw(WaitControl& control) noexcept {
  WaitFailure failure{};
  failure.peer = -1;
  failure.threw = 1;
  fail(control, failure);
}

void put_signals(std::span<const SignalPut> puts) noexcept {
  for (const SignalPut& put : puts) put_signal(put);
}

void count_signals(std::span<const SignalPut> puts) noexcept {
  for (const SignalPut& put : puts) ++put.mine->put;
}

void wait_signals(std::span<const SignalWait> waits, WaitControl& control, HostWorkers& workers) {
  std::int64_t began = 0;
  for (const SignalWait& wait : waits) wait_signal(wait, control, workers, began);
}

void signal_letters(std::span<const Letter> letters) noexcept {
  for (const Letter& letter : letters) put_signal(letter.put);
}

void wait_letters(std::span<const Letter> letters, WaitControl& control, HostWorkers& workers) {
  std::int64_t began = 0;
  for (const Letter& letter : letters) {
    // The peer's message is usually about as long as this rank's; its beginning is in the signal's cache line.
    constexpr std::size_t with_signal = line - mail_offset % line;
    const MessageRest rest(reinterpret_cast<const std::byte*>(letter.wait.word) + mail_offset + with_signal,
                           letter.bytes - std::min(letter.bytes, with_signal));
    wait_signal(letter.wait, control, workers, began, rest);
    rest.prefetch();
  }
}

}  // namespace tandem
