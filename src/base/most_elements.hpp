// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tandem {

/// Limit of a tensor's element count: more than fits in any memory, yet sums of sizes in bytes stay far below 2^63.
inline constexpr std::int64_t most_elements = std::int64_t{1} << 48;

}  // namespace tandem
