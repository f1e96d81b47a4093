// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tandem/device/signal.hpp"

// A part of signal_device.cuh, which programs include: nothing in here is for direct use, and all of it may change.

namespace tandem::cuda {

// The abort word, the departures and the deadline are in host memory, a PCIe round trip away. Reads by several blocks
// are serialized, each after the GPU's earlier stores to peers, and delay their own blocks: the peers' blocks then wait
// longer for these, and start to poll as well. So a grid polls host memory once per interval, its blocks in turns.
constexpr std::uint64_t poll_ns = 50'000;
__device__ inline std::uint64_t before_first_poll_ns() { return (blockIdx.x + 1) * poll_ns; }
__device__ inline std::uint64_t between_polls_ns() { return gridDim.x * poll_ns; }

// A wait that has seen an abort notes it in GPU memory, where later waits look now and then: so kernels queued after an
// abort end at once, instead of each after its first poll. (Each .cu file has its own copy of this table, so the first
// wait of each file still asks the host.)
constexpr unsigned looks_between_hints = 16;
constexpr std::uintptr_t abort_hints = 64;
static __device__ const WaitControl* volatile aborted_control[abort_hints];

__device__ inline const WaitControl* volatile& abort_hint(const WaitControl* control) {
  return aborted_control[reinterpret_cast<std::uintptr_t>(control) / sizeof(WaitControl) % abort_hints];
}

/// Whether a wait should ask the host at once. Only a hint: an earlier team's control may have had the same address.
__device__ inline bool may_be_aborted(const WaitControl* control) { return abort_hint(control) == control; }

/// The host's state as a wait sees it.
struct News {
  bool aborted;
  bool departures;  ///< some rank has departed: see `has_departed`
};

/// Reads both words from host memory in one access, and updates the abort hint.
__device__ inline News ask_host(const WaitControl* control) {
  std::uint32_t abort;
  std::uint32_t departures;
  asm volatile("ld.relaxed.sys.v2.u32 {%0, %1}, [%2];"
               : "=r"(abort), "=r"(departures)
               : "l"(&control->abort)
               : "memory");
  if (abort != 0U) {
    abort_hint(control) = control;
  } else if (may_be_aborted(control)) {
    abort_hint(control) = nullptr;
  }
  return {abort != 0U, departures != 0U};
}
static_assert(offsetof(WaitControl, departures) == offsetof(WaitControl, abort) + sizeof(WaitControl::abort));

/// Whether this rank of the world has departed. If so, everything that it sent is visible after this (acquire).
__device__ inline bool has_departed(const WaitControl* control, std::int32_t rank) {
  const auto* const words = reinterpret_cast<const std::uint32_t*>(control + 1);  // as in departed_ranks
  const auto bit = static_cast<std::uint32_t>(rank);
  std::uint32_t word;
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(word) : "l"(words + bit / ranks_in_a_word) : "memory");
  return (word >> bit % ranks_in_a_word & 1U) != 0U;
}

}  // namespace tandem::cuda
