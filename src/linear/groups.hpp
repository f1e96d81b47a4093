// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tandem/linear/linear_spec.hpp"

namespace tandem {

/// A part [from, to) of one peer's shard, in units of 1/`of` of it. Independent of the shard's size, so that a plan
/// knows its parts before its first run.
struct ShardPart {
  int shard = 0;  ///< its index in the order in which the peers' shards arrive or are sent
  int from = 0;
  int to = 1;
  int of = 1;

  [[nodiscard]] bool ends_shard() const noexcept { return to == of; }
  /// In units of a shard.
  [[nodiscard]] double size() const noexcept { return static_cast<double>(to - from) / of; }
};

/// A shard in `count` (at least 1) equal parts.
[[nodiscard]] std::vector<ShardPart> equal_parts(int count);

/// A shard in `count` parts of sizes 1 : 3 : 5 and so on.
[[nodiscard]] std::vector<ShardPart> growing_parts(int count);
/// A shard in parts of these sizes in reverse order.
[[nodiscard]] std::vector<ShardPart> shrinking_parts(int count);

/// What a pipeline multiplies at once, in order: at most one part of each shard, of consecutive shards without gaps.
using ShardGroup = std::vector<ShardPart>;

/// The whole of `count` shards, beginning with `first`.
[[nodiscard]] ShardGroup whole_shards(int first, int count);

/// `groups` (at least 1) equal groups, which may end inside a shard: the first can be sent after one group's GEMM, and
/// at the end at most one group remains to be sent or multiplied. Empty if there are no shards.
[[nodiscard]] std::vector<ShardGroup> equal_groups(int shards, int groups);

/// Groups for shards that arrive. Up to as many as shards, they are of whole shards, each about twice as large as the
/// one before: the first GEMM starts as early as possible, and few GEMMs cost least. More groups are equal.
[[nodiscard]] std::vector<ShardGroup> arriving_groups(int shards, int groups);

/// The size of a group, in units of a shard.
[[nodiscard]] double size_in_shards(const ShardGroup& group) noexcept;

/// The rows of `part` in `owner`'s shard of `m` rows.
[[nodiscard]] Shard part_rows(std::int64_t m, int ranks, int owner, const ShardPart& part) noexcept;

/// The rows of a group in as few ranges as possible, none empty, ascending. `owners[i]` is the rank with shard i.
[[nodiscard]] std::vector<Shard> group_rows(std::int64_t m, int ranks, std::span<const int> owners,
                                            const ShardGroup& group);

}  // namespace tandem
