// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tandem {

/// Of a tensor: more than any memory has, and so few that sums of sizes in bytes never come near 2^63.
inline constexpr std::int64_t most_elements = std::int64_t{1} << 48;

}  // namespace tandem
