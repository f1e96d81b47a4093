// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tandem/device/signal.hpp"

namespace tandem {

/// Where the ranks of a team meet while one step of the device works on all of their memory: each thread block meets
/// the same block of every peer, by words of its own.
struct MeetingBlocks {
  std::span<const PeerWords> peers{};  ///< all ranks but this one: the words of block 0
  std::size_t pitch = 0;               ///< bytes from a block's words to the next one's
  int blocks = 1;                      ///< equal on all ranks
  std::uint32_t operation = 0;         ///< for the error; the channel there is the block
};

}  // namespace tandem
