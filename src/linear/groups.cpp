// SPDX-License-Identifier: Apache-2.0
#include "linear/groups.hpp"

#include <algorithm>

namespace tandem {

std::vector<int> growing_groups(int peers, int groups) {
  std::vector<int> sizes;
  for (int left = peers, parts = groups; parts > 0; --parts) {
    // Sizes 1 : 2 : 4 … over the parts that are left, at least one each.
    const int share = left / ((1 << std::min(parts, 20)) - 1);
    const int size = parts == 1 ? left : std::clamp(share, 1, left - parts + 1);
    sizes.push_back(size);
    left -= size;
  }
  return sizes;
}

std::vector<RowRange> merged_rows(std::int64_t m, int ranks, std::span<const int> owners) {
  std::vector<int> sorted(owners.begin(), owners.end());
  std::ranges::sort(sorted);
  std::vector<RowRange> merged;
  for (const int owner : sorted) {
    const RowRange rows = shard_rows(m, ranks, owner);
    if (rows.count == 0) continue;
    if (!merged.empty() && merged.back().begin + merged.back().count == rows.begin) {
      merged.back().count += rows.count;
    } else {
      merged.push_back(rows);
    }
  }
  return merged;
}

}  // namespace tandem
