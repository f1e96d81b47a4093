// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tandem/device/signal.hpp"

namespace tandem::cuda {

// The abort word, who has departed and the deadline lie in the host's memory, a round trip over PCIe away. Reads by
// several blocks go there one after the other, each behind what its GPU stores to peers, and hold up what their blocks
// wait for: the peers' blocks then wait longer for these, and read it too. So a grid reads it once in so long, its
// blocks in turns.
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

/// What the host has to say to a wait.
struct News {
  bool aborted;
  bool departures;  ///< some rank's: see `has_departed`
};

/// Asks the host, once for both, and keeps what it says of an abort.
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

/// Whether this rank of the world sends nothing more. What it has sent is there to see after this.
__device__ inline bool has_departed(const WaitControl* control, std::int32_t rank) {
  const auto* const words = reinterpret_cast<const std::uint32_t*>(control + 1);  // as departed_ranks says
  const auto bit = static_cast<std::uint32_t>(rank);
  std::uint32_t word;
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(word) : "l"(words + bit / ranks_in_a_word) : "memory");
  return (word >> bit % ranks_in_a_word & 1U) != 0U;
}

}  // namespace tandem::cuda
