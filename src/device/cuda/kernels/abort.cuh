// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tandem/device/signal.hpp"

namespace tandem::cuda {

// The abort word and the deadline lie in the host's memory, a round trip over PCIe away. Reads by several blocks go
// there one after the other, each behind what its GPU stores to peers, and hold up what their blocks wait for: the
// peers' blocks then wait longer for these, and read it too. So a grid reads it once in so long, its blocks in turns.
constexpr std::uint64_t poll_ns = 50'000;
__device__ inline std::uint64_t before_first_poll_ns() { return (blockIdx.x + 1) * poll_ns; }
__device__ inline std::uint64_t between_polls_ns() { return gridDim.x * poll_ns; }

// What a wait has seen of an abort is kept in the GPU's own memory, where the waits behind it look now and then: so
// what is queued behind an abort ends at once, and not each kernel after its turn. (Of each file of kernels: the first
// to wait of another one asks the host.)
constexpr unsigned looks_between_hints = 16;
constexpr std::uintptr_t abort_hints = 64;
static __device__ const WaitControl* volatile aborted_control[abort_hints];

__device__ inline const WaitControl* volatile& abort_hint(const WaitControl* control) {
  return aborted_control[reinterpret_cast<std::uintptr_t>(control) / sizeof(WaitControl) % abort_hints];
}

/// Whether a wait had better ask the host at once. It need not be so: another team's control may have had this place.
__device__ inline bool may_be_aborted(const WaitControl* control) { return abort_hint(control) == control; }

__device__ inline std::uint32_t load_relaxed_system(const std::uint32_t* word) {
  std::uint32_t value;
  asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

/// Asks the host, and keeps what it says.
__device__ inline bool is_aborted(const WaitControl* control) {
  const bool aborted = load_relaxed_system(&control->abort) != 0U;
  if (aborted) {
    abort_hint(control) = control;
  } else if (may_be_aborted(control)) {
    abort_hint(control) = nullptr;
  }
  return aborted;
}

}  // namespace tandem::cuda
