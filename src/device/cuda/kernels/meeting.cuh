// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tandem/device/signal.hpp"
#include "tandem/device/signal_device.cuh"

#include "device/cuda/kernels/meeting.hpp"

namespace tandem::cuda {

__device__ inline SignalWord* moved(SignalWord* word, std::size_t bytes) {
  return reinterpret_cast<SignalWord*>(reinterpret_cast<std::byte*>(word) + bytes);
}

/// After this, the peers see what all threads of the block wrote before it, and the block sees what theirs wrote. `at`
/// is the byte offset of the block's words from those in `peers`; the block must have at least one thread per peer.
///
/// The threads that signal publish what the whole block stored: the barrier orders it before their releases, which are
/// cumulative at system scope. Conversely, what they acquire is visible to the block after the second barrier. No
/// thread may read what peers write before that, so that the L1 holds no stale line of it.
__device__ inline void meet_peers(const PeerWords* peers, int count, std::size_t at, std::uint32_t operation,
                                  WaitControl* control) {
  __syncthreads();
  if (const int peer = static_cast<int>(threadIdx.x); peer < count) {
    SignalWord* const mine = moved(peers[peer].mine, at);
    put_signal({.mine = mine, .theirs = moved(peers[peer].theirs, at)});
    static_cast<void>(wait_signal(
        {.word = mine, .peer = peers[peer].world_rank, .channel = blockIdx.x, .operation = operation}, control));
  }
  __syncthreads();
}

/// Called by each block of a kernel, which meets the same block of each peer. One block of each is enough, whichever it
/// is: a kernel reads what the peers' earlier kernels wrote, and writes what their later kernels read.
__device__ inline void meet_peers(const Meeting& meeting) {
  meet_peers(meeting.peers, meeting.peer_count, blockIdx.x * meeting.pitch, meeting.operation, meeting.control);
}

}  // namespace tandem::cuda
