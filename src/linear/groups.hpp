// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tandem/linear/linear_spec.hpp"

namespace tandem {

/// Cuts `peers` shards, in the order in which they arrive, into `groups` runs, each about twice as long as the one
/// before: the first product starts as soon as something is there, and few products cost least. 1 ≤ groups ≤ peers, or
/// both 0.
[[nodiscard]] std::vector<int> growing_groups(int peers, int groups);

/// The row ranges of M that these ranks own, as few as they make, none empty, ascending.
[[nodiscard]] std::vector<RowRange> merged_rows(std::int64_t m, int ranks, std::span<const int> owners);

}  // namespace tandem
