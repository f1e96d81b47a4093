// SPDX-License-Identifier: Apache-2.0
#include "linear/groups.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

namespace tandem {
namespace {

/// Where numerator/denominator of a shard's rows end. A round number of rows, where there are many: products are
/// computed in tiles.
std::int64_t cut(std::int64_t rows, std::int64_t numerator, std::int64_t denominator) {
  const auto granule =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max(rows / 16, std::int64_t{1}))));
  return numerator == denominator ? rows : rows * numerator / denominator / granule * granule;
}

}  // namespace

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

std::vector<OwnersRows> equal_group(std::int64_t m, int ranks, std::span<const int> owners, int groups, int group) {
  // In units of 1/groups of a shard, a group is as long as there are owners.
  const auto length = static_cast<std::int64_t>(owners.size());
  const std::int64_t begin = group * length;
  const std::int64_t end = begin + length;
  std::vector<OwnersRows> parts;
  for (std::int64_t shard = begin / groups; shard * groups < end; ++shard) {
    const std::int64_t from = std::max(begin - shard * groups, std::int64_t{0});
    const std::int64_t to = std::min<std::int64_t>(end - shard * groups, groups);
    const int owner = owners[static_cast<std::size_t>(shard)];
    const RowRange rows = shard_rows(m, ranks, owner);
    const std::int64_t first_row = cut(rows.count, from, groups);
    parts.push_back({.owner = owner,
                     .rows = {rows.begin + first_row, cut(rows.count, to, groups) - first_row},
                     .before = first_row,
                     .first = from == 0,
                     .last = to == groups});
  }
  return parts;
}

std::vector<RowRange> merged(std::vector<RowRange> ranges) {
  std::erase_if(ranges, [](const RowRange& rows) { return rows.count == 0; });
  std::ranges::sort(ranges, {}, &RowRange::begin);
  std::vector<RowRange> result;
  for (const RowRange& rows : ranges) {
    if (!result.empty() && result.back().begin + result.back().count == rows.begin) {
      result.back().count += rows.count;
    } else {
      result.push_back(rows);
    }
  }
  return result;
}

std::vector<RowRange> merged_rows(std::int64_t m, int ranks, std::span<const int> owners) {
  std::vector<RowRange> ranges;
  for (const int owner : owners) ranges.push_back(shard_rows(m, ranks, owner));
  return merged(std::move(ranges));
}

}  // namespace tandem
