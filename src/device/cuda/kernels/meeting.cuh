// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tandem/device/signal.hpp"

#include "device/cuda/kernels/meeting.hpp"
#include "device/cuda/kernels/signal.cuh"

namespace tandem::cuda {

__device__ inline SignalWord* moved(SignalWord* word, std::size_t bytes) {
  return reinterpret_cast<SignalWord*>(reinterpret_cast<std::byte*>(word) + bytes);
}

/// Behind this, what all threads of the block wrote has come to the peers, and what those wrote has come here. `at` is
/// how many bytes a block's words lie behind those that `peers` names; there are more threads than peers.
///
/// What the block stored is published by the threads that signal: the barrier orders it before them, and a release at
/// system scope is cumulative. The other way round, what they acquire is visible to the block behind the next barrier.
/// So no thread reads before that what peers write, and no L1 holds an old line of it.
__device__ inline void meet_peers(const PeerWords* peers, int count, std::size_t at, std::uint32_t operation,
                                  WaitControl* control) {
  __syncthreads();
  if (const int peer = static_cast<int>(threadIdx.x); peer < count) {
    SignalWord* const mine = moved(peers[peer].mine, at);
    put_signal({.mine = mine, .theirs = moved(peers[peer].theirs, at)});
    wait_signal({.word = mine, .peer = peers[peer].world_rank, .channel = blockIdx.x, .operation = operation}, control);
  }
  __syncthreads();
}

/// In each block of a kernel by itself. It reads of peers what their kernels in front of this one wrote, and writes
/// what those behind it read: so it needs to meet any block of each, and each meets one.
__device__ inline void meet_peers(const Meeting& meeting) {
  meet_peers(meeting.peers, meeting.peer_count, blockIdx.x * meeting.pitch, meeting.operation, meeting.control);
}

}  // namespace tandem::cuda
