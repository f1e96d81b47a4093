// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

namespace tandem {

/// How many of a message's `bytes` are in the piece that begins at byte `begin`, where pieces have up to `piece` bytes;
/// 0 behind the end, where longer messages of other ranks go on.
[[nodiscard]] constexpr std::size_t bytes_in_piece(std::size_t begin, std::size_t bytes, std::size_t piece) noexcept {
  return std::min(piece, bytes - std::min(begin, bytes));
}

}  // namespace tandem
