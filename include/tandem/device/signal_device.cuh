// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tandem/device/abort_device.cuh"
#include "tandem/device/signal.hpp"

// Signals from a kernel: `put_signal` and `wait_signal`, at the end. They are the same signals as those that the host
// queues (SignalPad), with the same counts in the GPU's memory, so either side may put or wait for what the other one
// waits for or puts, and a captured kernel may be replayed. A kernel's arguments are
//
//   pad.signal_to(rank, channel), pad.signal_from(rank, channel), team.control()
//
// which are valid as long as the pad's memory and the team. Rules:
//
// - One thread at a time puts to a rank and channel, or waits for them: calls of kernels and of the host are ordered by
//   a barrier or by their stream.
// - Before a put there is a barrier (__syncthreads, or one of the grid) with the threads whose stores it publishes, and
//   after a wait one with those that read what it has waited for.
// - Blocks that wait for blocks of a peer have to be resident at once: at most Team::resident_blocks(), on all ranks.
// - The GPU is of compute capability 7.0 or later.
// - The kernel is loaded before anything waits on the GPU (as cudaFuncGetAttributes does): later that may wait, too.
// - If a wait returns false, the team has failed, and what was awaited is not valid. The kernel should end;
//   Team::synchronize says why. Nothing traps, and the context lives on.

namespace tandem::cuda {

// What `put_signal` and `wait_signal` are made of. The library's own kernels use it directly, and it may change.

// A wait does not sleep at first: most signals arrive within a few polls.
constexpr unsigned looks_before_sleep = 16;
constexpr unsigned max_sleep_ns = 256;

__device__ inline std::uint64_t load_acquire_system(const std::uint64_t* word) {
  std::uint64_t value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

__device__ inline void store_release_system(std::uint64_t* word, std::uint64_t value) {
  asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

__device__ inline void store_release_system(std::uint32_t* word, std::uint32_t value) {
  asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

__device__ inline std::uint64_t now_ns() {
  std::uint64_t value;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value)::"memory");
  return value;
}

/// Stores `facts` at `place`, for the first of this rank's waits that calls it. Both words are in host memory, where
/// PCIe may not support atomics: a compare-and-swap at device scope suffices, since only kernels of this GPU compete
/// for `state`. The CPU reads `place` after it has acquired state == 2.
__device__ inline void report_first(std::uint32_t* state, WaitFailure* place, const WaitFailure& facts) {
  if (atomicCAS(state, 0U, 1U) != 0U) return;
  *place = facts;
  store_release_system(state, 2U);
}

/// Whether a wait that has taken `waited_ns` so far may continue. It ends if there was an abort; at its deadline, or if
/// its peer has departed, it fails and causes one. It reports each case, but checks `has_come` before it fails: the
/// signal may have come while other kernels had the GPU, or just before the peer departed.
template <typename HasCome>
__device__ bool may_wait_on(WaitControl* control, const SignalWait& wait, std::uint64_t expected, std::uint64_t seen,
                            std::uint64_t waited_ns, const HasCome& has_come) {
  const News news = ask_host(control);
  const bool late = waited_ns >= *const_cast<const volatile std::uint64_t*>(&control->timeout_ns);
  const bool departed = news.departures && wait.peer >= 0 && has_departed(control, wait.peer);
  if (!news.aborted && (!(late || departed) || has_come())) return true;
  const WaitFailure facts{wait.operation, wait.peer, wait.channel, expected, seen, waited_ns, 0, departed ? 1U : 0U, 0};
  if (news.aborted) {
    report_first(&control->cut_short, &control->cut, facts);
  } else {
    report_first(&control->failed, &control->failure, facts);
    store_release_system(&control->abort, 1U);
    // A peer that receives what this block still sends, which may be invalid, must see the abort when it checks.
    __threadfence_system();
  }
  return false;
}

/// The state of a wait whose signal had not come yet. It ends with the signal, or when may_wait_on says so.
class Patience {
 public:
  __device__ Patience(const SignalWait& wait, WaitControl* control)
      : wait_(wait), control_(control), begin_(now_ns()), next_poll_(begin_ + before_first_poll_ns()) {}

  /// False if the wait has failed; else the caller polls again (this may have slept a little). `expected` is the
  /// awaited count; `seen`, the last one read, is for the error.
  __device__ bool lasts(std::uint64_t expected, std::uint64_t seen) {
    if (const std::uint64_t now = now_ns(); now >= next_poll_) {
      const auto has_come = [&] { return load_acquire_system(&wait_.word->value) >= expected; };
      if (!may_wait_on(control_, wait_, expected, seen, now - begin_, has_come)) return false;
      next_poll_ = now + between_polls_ns();
    }
    if (++looks_ % looks_between_hints == 0 && may_be_aborted(control_)) next_poll_ = 0;
    if (looks_ > looks_before_sleep) {
      __nanosleep(sleep_ns_);
      sleep_ns_ = sleep_ns_ < max_sleep_ns ? sleep_ns_ * 2 : max_sleep_ns;
    }
    return true;
  }

 private:
  const SignalWait& wait_;
  WaitControl* control_;
  std::uint64_t begin_;
  std::uint64_t next_poll_;
  unsigned looks_ = 0;
  unsigned sleep_ns_ = 16;
};

}  // namespace tandem::cuda

namespace tandem {

/// Signals a peer, by one thread. Every earlier write of this GPU that is ordered before this thread, by a barrier or
/// by the start of its kernel, is visible to who has waited for the signal: a release at system scope, which is
/// cumulative. (It is a fence and a store. A __threadfence_system() before it, which is sequentially consistent, would
/// order nothing more and take 1.5 µs.) Only this rank uses `put`, and calls for one word are ordered, so no atomic is
/// needed.
__device__ inline void put_signal(const SignalPut& put) {
  const std::uint64_t count = put.mine->put + (put.counted ? 0 : 1);
  put.mine->put = count;
  cuda::store_release_system(&put.theirs->value, count);
}

/// Waits, by one thread, until as many signals have come in addition to those that earlier waits consumed (acquire at
/// system scope). False if they did not, by the team's deadline, or since the team has failed or the peer has ended its
/// world. `taken` grows by `count` whatever the outcome, so that it does not depend on timing.
[[nodiscard]] __device__ inline bool wait_signal(const SignalWait& wait, WaitControl* control) {
  const std::uint64_t expected = wait.word->taken + wait.count;
  wait.word->taken = expected;
  std::uint64_t seen = cuda::load_acquire_system(&wait.word->value);
  if (seen >= expected) return true;
  cuda::Patience patience(wait, control);
  while (patience.lasts(expected, seen)) {
    seen = cuda::load_acquire_system(&wait.word->value);
    if (seen >= expected) return true;
  }
  return false;
}

}  // namespace tandem
