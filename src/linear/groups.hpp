// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tandem/linear/linear_spec.hpp"

namespace tandem {

/// A part of one peer's shard, in `of`-ths of it: [from, to). It is the same whatever the shard's size is, so that a
/// plan knows its parts before its first run.
struct ShardPart {
  int shard = 0;  ///< its place in the order in which peers' shards arrive, or leave
  int from = 0;
  int to = 1;
  int of = 1;

  [[nodiscard]] bool ends_shard() const noexcept { return to == of; }
  /// In shards.
  [[nodiscard]] double size() const noexcept { return static_cast<double>(to - from) / of; }
};

/// A shard in so many equal parts, at least 1.
[[nodiscard]] std::vector<ShardPart> equal_parts(int count);

/// The same in parts of 1 : 3 : 5 and so on.
[[nodiscard]] std::vector<ShardPart> growing_parts(int count);
/// And with the largest first.
[[nodiscard]] std::vector<ShardPart> shrinking_parts(int count);

/// What a pipeline multiplies at once, in order: at most one part of each shard, none left out in between.
using ShardGroup = std::vector<ShardPart>;

/// The whole of `count` shards, beginning with `first`.
[[nodiscard]] ShardGroup whole_shards(int first, int count);

/// Into `groups` equal ones, at least 1, which may end inside a shard: the first can leave after one group's product,
/// and no more than one group is left to be sent, or multiplied, in the end. None of no shards.
[[nodiscard]] std::vector<ShardGroup> equal_groups(int shards, int groups);

/// For shards that arrive. As many groups as shards or fewer take whole ones, each group about twice as many as the one
/// before: the first product starts as soon as something is there, and few products cost least. More groups are equal.
[[nodiscard]] std::vector<ShardGroup> arriving_groups(int shards, int groups);

/// How much a group holds, in shards.
[[nodiscard]] double size_in_shards(const ShardGroup& group) noexcept;

/// The rows of `part` of what `owner` has of `m`.
[[nodiscard]] RowRange part_rows(std::int64_t m, int ranks, int owner, const ShardPart& part) noexcept;

/// The rows of a group in as few ranges as they make, none empty, ascending. `owners[i]` has shard i.
[[nodiscard]] std::vector<RowRange> group_rows(std::int64_t m, int ranks, std::span<const int> owners,
                                               const ShardGroup& group);

}  // namespace tandem
