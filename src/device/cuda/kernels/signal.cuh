// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tandem/device/signal.hpp"

namespace tandem::cuda {

constexpr std::uint64_t abort_poll_ns = 50'000;
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

__device__ inline std::uint32_t load_relaxed_system(const std::uint32_t* word) {
  std::uint32_t value;
  asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

__device__ inline std::uint64_t now_ns() {
  std::uint64_t value;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value)::"memory");
  return value;
}

/// SignalPut, by one thread. The fence in front makes every earlier write of this GPU that is ordered before this
/// thread performed at system scope before the count leaves. `put` belongs to this rank alone and calls for one word
/// are ordered by their streams: no atomic is needed.
__device__ inline void put_signal(const SignalPut& put) {
  const std::uint64_t count = put.mine->put + 1;
  put.mine->put = count;
  __threadfence_system();
  store_release_system(&put.theirs->value, count);
}

/// The first of this rank's waits to miss its deadline says so; the others only see the abort.
/// `control` is host memory, on which a PCIe root need not offer atomics: only kernels of this GPU compete for
/// `failed`, so the exchange is atomic for this GPU alone. The CPU reads `failure` after it has acquired failed == 2.
__device__ inline void report_timeout(WaitControl* control, const SignalWait& wait, std::uint64_t expected,
                                      std::uint64_t seen, std::uint64_t waited_ns) {
  if (atomicCAS(&control->failed, 0U, 1U) == 0U) {
    control->failure = {wait.operation, wait.peer, wait.channel, expected, seen, waited_ns};
    store_release_system(&control->failed, 2U);
  }
  store_release_system(&control->abort, 1U);
}

/// SignalWait, by one thread.
/// - `taken` grows by `count` whatever the outcome, so that a word's account does not depend on timing;
/// - the fast path (the count is already there) reads nothing of the host's memory;
/// - otherwise the abort word is read every 50 µs only, a round trip over PCIe each; the loop ends by the deadline.
__device__ inline void wait_signal(const SignalWait& wait, WaitControl* control) {
  const std::uint64_t expected = wait.word->taken + wait.count;
  wait.word->taken = expected;
  std::uint64_t seen = load_acquire_system(&wait.word->value);
  if (seen >= expected) return;
  const std::uint64_t begin = now_ns();
  const std::uint64_t timeout = *const_cast<const volatile std::uint64_t*>(&control->timeout_ns);
  std::uint64_t next_abort_poll = begin;
  unsigned sleep_ns = 16;
  while ((seen = load_acquire_system(&wait.word->value)) < expected) {
    const std::uint64_t now = now_ns();
    if (now >= next_abort_poll) {
      if (load_relaxed_system(&control->abort) != 0U) break;
      next_abort_poll = now + abort_poll_ns;
    }
    if (now - begin >= timeout) {
      report_timeout(control, wait, expected, seen, now - begin);
      break;
    }
    __nanosleep(sleep_ns);
    sleep_ns = sleep_ns < max_sleep_ns ? sleep_ns * 2 : max_sleep_ns;
  }
}

}  // namespace tandem::cuda
