// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/checked.hpp"

namespace tandem {

/// The least bytes per lane: 256 accesses of 16 bytes. More thread blocks with fewer each would not be faster.
inline constexpr std::size_t shortest_mail_slice = 4096;
/// How many mailboxes a lane has for each pair of ranks, used in turns (see MailedExchange).
inline constexpr std::size_t mail_turns = 2;

/// The bytes of each lane if `bytes` are split among `lanes`.
[[nodiscard]] constexpr std::size_t mail_slice_bytes(std::size_t bytes, std::size_t lanes) noexcept {
  return std::max(shortest_mail_slice, round_up((bytes + lanes - 1) / lanes, 16));
}

}  // namespace tandem
