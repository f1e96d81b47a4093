// SPDX-License-Identifier: Apache-2.0
#include "linear/groups.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tandem {
namespace {

/// The row at which numerator/denominator of a shard end: a multiple of a power of two, since GEMMs are computed in
/// tiles, which is no larger than the smallest part, so that no part is empty if there are enough rows.
std::int64_t cut(std::int64_t rows, std::int64_t numerator, std::int64_t denominator) noexcept {
  const std::int64_t least = rows / std::max(denominator, std::int64_t{16});
  const auto granule =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max(least, std::int64_t{1}))));
  return numerator == denominator ? rows : rows * numerator / denominator / granule * granule;
}

std::vector<ShardGroup> growing_groups(int shards, int groups) {
  std::vector<ShardGroup> result;
  int next = 0;
  for (int parts = groups; parts > 0; --parts) {
    // Sizes 1 : 2 : 4 : … over the remaining groups, at least one shard each.
    const int left = shards - next;
    const int share = left / ((1 << std::min(parts, 20)) - 1);
    const int size = parts == 1 ? left : std::clamp(share, 1, left - parts + 1);
    result.push_back(whole_shards(next, size));
    next += size;
  }
  return result;
}

}  // namespace

std::vector<ShardPart> equal_parts(int count) {
  std::vector<ShardPart> parts;
  for (int i = 0; i < count; ++i) parts.push_back({.from = i, .to = i + 1, .of = count});
  return parts;
}

std::vector<ShardPart> growing_parts(int count) {
  std::vector<ShardPart> parts;
  for (int i = 0; i < count; ++i) parts.push_back({.from = i * i, .to = (i + 1) * (i + 1), .of = count * count});
  return parts;
}

std::vector<ShardPart> shrinking_parts(int count) {
  std::vector<ShardPart> parts = growing_parts(count);
  std::ranges::reverse(parts);
  for (ShardPart& part : parts) part = {.from = part.of - part.to, .to = part.of - part.from, .of = part.of};
  return parts;
}

ShardGroup whole_shards(int first, int count) {
  ShardGroup group;
  for (int shard = first; shard < first + count; ++shard) group.push_back({.shard = shard});
  return group;
}

std::vector<ShardGroup> equal_groups(int shards, int groups) {
  std::vector<ShardGroup> result;
  if (shards == 0) return result;
  // In units of 1/groups of a shard, each group has length `shards`.
  for (int begin = 0; begin < shards * groups; begin += shards) {
    const int end = begin + shards;
    ShardGroup group;
    for (int shard = begin / groups; shard * groups < end; ++shard) {
      group.push_back({.shard = shard,
                       .from = std::max(begin - shard * groups, 0),
                       .to = std::min(end - shard * groups, groups),
                       .of = groups});
    }
    result.push_back(group);
  }
  return result;
}

std::vector<ShardGroup> arriving_groups(int shards, int groups) {
  if (shards == 0) return {};
  return groups <= shards ? growing_groups(shards, groups) : equal_groups(shards, groups);
}

double size_in_shards(const ShardGroup& group) noexcept {
  double size = 0;
  for (const ShardPart& part : group) size += part.size();
  return size;
}

Shard part_rows(std::int64_t m, int ranks, int owner, const ShardPart& part) noexcept {
  const Shard shard = shard_of(m, ranks, owner);
  const std::int64_t begin = cut(shard.count, part.from, part.of);
  return {shard.begin + begin, cut(shard.count, part.to, part.of) - begin};
}

std::vector<Shard> group_rows(std::int64_t m, int ranks, std::span<const int> owners, const ShardGroup& group) {
  std::vector<Shard> ranges;
  for (const ShardPart& part : group) {
    const Shard rows = part_rows(m, ranks, owners[static_cast<std::size_t>(part.shard)], part);
    if (rows.count > 0) ranges.push_back(rows);
  }
  std::ranges::sort(ranges, {}, &Shard::begin);
  std::vector<Shard> result;
  for (const Shard& rows : ranges) {
    if (!result.empty() && result.back().begin + result.back().count == rows.begin) {
      result.back().count += rows.count;
    } else {
      result.push_back(rows);
    }
  }
  return result;
}

}  // namespace tandem
