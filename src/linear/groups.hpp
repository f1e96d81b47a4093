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

/// Rows that one group multiplies for one owner, and whether they begin and end what the owner gets.
struct OwnersRows {
  int owner = 0;
  RowRange rows;
  std::int64_t before = 0;  ///< the owner's rows in earlier groups
  bool first = true;
  bool last = true;
};

/// Group `group` of the `groups` equal ones that the owners' shards make, in their order: groups may end inside a
/// shard. The first push can leave after one group's product, and no more than one group's push is left when the last
/// product ends. Every owner begins and ends once, also one without rows.
[[nodiscard]] std::vector<OwnersRows> equal_group(std::int64_t m, int ranks, std::span<const int> owners, int groups,
                                                  int group);

/// These rows in as few ranges as they make, none empty, ascending.
[[nodiscard]] std::vector<RowRange> merged(std::vector<RowRange> ranges);
/// The rows that these ranks own, merged.
[[nodiscard]] std::vector<RowRange> merged_rows(std::int64_t m, int ranks, std::span<const int> owners);

}  // namespace tandem
