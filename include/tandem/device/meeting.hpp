// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tandem/device/signal.hpp"

namespace tandem {

/// How the ranks of a team synchronize inside a kernel that works on all ranks' memory: each thread block synchronizes
/// with the same block of every peer, through signal words of its own.
struct MeetingBlocks {
  std::span<const PeerWords> peers{};  ///< all ranks but this one: the words of block 0
  std::size_t pitch = 0;               ///< bytes from a block's words to the next block's
  int blocks = 1;                      ///< must be equal on all ranks
  std::uint32_t operation = 0;         ///< for errors, where the channel is the block
};

}  // namespace tandem
