// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_signal.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <sched.h>

#include "tandem/base/trace.hpp"

#include "device/host/core_offer.hpp"
#include "device/host/futex.hpp"
#include "device/host/time_slice.hpp"

namespace tandem {

namespace {

using namespace std::chrono_literals;

// A peer's signal is usually a few microseconds away, less than a sleep costs. Where nobody else wants the core, looks
// are close together, with an offer of the core now and then; else every look is followed by one, which brings the peer
// forward where cores are short.
constexpr std::int64_t offer_every_ns = 20'000;
// Then the waiter sleeps. An idle core of a virtual machine wakes up as late as 0.4 ms after the call: with less
// patience than that, ranks that have once slept keep each other asleep.
constexpr std::int64_t patience_ns = 1'000'000;
constexpr std::int64_t patience_with_others_ns = 100'000;
constexpr int spins_between_looks = 32;
// Before any of that it looks, or offers its core, so often without asking what time it is: about 1 µs, or a few.
constexpr int first_looks = 32;
constexpr int first_offers = 4;
constexpr unsigned waits_for_a_question = 16;
// An abort is a plain store that wakes nobody, so sleepers look up this often.
constexpr std::chrono::nanoseconds sleep_slice = 20ms;
constexpr std::size_t line = 64;

std::uint64_t value_of(SignalWord& word) noexcept {
  return std::atomic_ref(word.value).load(std::memory_order_acquire);
}

// One look that may sleep. The sleeper counts itself first and reads the value second; who puts a signal writes the
// value first and reads the count second; all sequentially consistent, so a wake-up is never lost.
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

/// A thread that wakes in front of those that compute does not offer them its core, which would then be gone for a turn
/// of milliseconds: it sleeps. Now and then it offers it all the same, to learn whether anybody wants it.
bool sleeps_at_once() noexcept {
  thread_local unsigned waits = 0;
  return has_shortest_time_slice() && ++waits % waits_for_a_question != 0;
}

/// What a message has in the lines behind the signal's own. A few are asked for together with the signal: behind it,
/// they would be one more miss. Of more the writer would lose some again before it has filled them.
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

/// Whether this was the first to leave its `facts` at `place`.
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

// Waits of one call begin together, so they share a deadline: `began` is when the first of them had to wait, or 0.
void wait_signal(const SignalWait& wait, WaitControl& control, std::int64_t& began,
                 const MessageRest& rest = {}) noexcept {
  SignalWord& word = *wait.word;
  const std::uint64_t target = word.taken += wait.count;
  if (comes_at_once(word, target, rest)) return;
  const std::int64_t looked_from = Trace::now_ns();
  if (began == 0) began = looked_from;
  const std::uint64_t timeout_ns = std::atomic_ref(control.timeout_ns).load(std::memory_order_relaxed);
  std::int64_t offered_at = looked_from;
  while (value_of(word) < target) {
    const std::int64_t now = Trace::now_ns();
    const std::uint64_t waited = static_cast<std::uint64_t>(now - began);
    const bool ended = aborted(control);
    const bool gone = departed(control, wait.peer);
    if (ended || gone || waited >= timeout_ns) {
      // Whoever stopped this thread for so long (a debugger, a frozen machine) may have let the signal come meanwhile;
      // and who departs may have sent it just before.
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
      if (ended) {
        static_cast<void>(report_first(control.cut_short, control.cut, facts));
      } else {
        fail(control, facts);
      }
      break;
    }
    const bool wanted = core_is_wanted();
    if (!wanted && now - offered_at < offer_every_ns) {
      for (int i = 0; i < spins_between_looks && value_of(word) < target; ++i) cpu_relax();
    } else if (now - looked_from < patience(wanted)) {
      offer_core();
      offered_at = Trace::now_ns();
    } else {
      const std::uint64_t left = std::min<std::uint64_t>(timeout_ns - waited, std::uint64_t{1} << 40);
      sleep_on(word, target, std::chrono::nanoseconds(static_cast<std::int64_t>(left)));
    }
  }
}

}  // namespace

bool aborted(WaitControl& control) noexcept {
  return std::atomic_ref(control.abort).load(std::memory_order_acquire) != 0;
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
    // Nor may what the stream stores from now on be seen before that.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return;
  }
  // Another one failed first and is about to abort. The stream must not go on before that can be seen, or garbage would
  // pass for a result.
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

void wait_signals(std::span<const SignalWait> waits, WaitControl& control) noexcept {
  std::int64_t began = 0;
  for (const SignalWait& wait : waits) wait_signal(wait, control, began);
}

void signal_letters(std::span<const Letter> letters) noexcept {
  for (const Letter& letter : letters) put_signal(letter.put);
}

void wait_letters(std::span<const Letter> letters, WaitControl& control) noexcept {
  std::int64_t began = 0;
  for (const Letter& letter : letters) {
    // Mostly the peer's message is as long as this one, or nearly; its first line comes with the signal.
    constexpr std::size_t with_signal = line - mail_offset % line;
    const MessageRest rest(reinterpret_cast<const std::byte*>(letter.wait.word) + mail_offset + with_signal,
                           letter.bytes - std::min(letter.bytes, with_signal));
    wait_signal(letter.wait, control, began, rest);
    rest.prefetch();
  }
}

}  // namespace tandem
