// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "tandem/base/checked.hpp"

namespace tandem {

/// Of a lane at least, in bytes: 256 accesses of 16 bytes, since more blocks of less would not be faster.
inline constexpr std::size_t shortest_mail_slice = 4096;
/// Mailboxes of a lane for each pair of ranks (see MailedExchange).
inline constexpr std::size_t mail_turns = 2;

/// Of each lane where `lanes` share `bytes`.
[[nodiscard]] constexpr std::size_t mail_slice_bytes(std::size_t bytes, std::size_t lanes) noexcept {
  return std::max(shortest_mail_slice, round_up((bytes + lanes - 1) / lanes, 16));
}

}  // namespace tandem
