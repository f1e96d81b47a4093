// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

namespace tandem {

/// How many bytes of a message of `bytes` are in the piece that begins at byte `begin`, if pieces have up to `piece`
/// bytes; 0 past the message's end, where other ranks' longer messages continue.
[[nodiscard]] constexpr std::size_t bytes_in_piece(std::size_t begin, std::size_t bytes, std::size_t piece) noexcept {
  return std::min(piece, bytes - std::min(begin, bytes));
}

}  // namespace tandem
