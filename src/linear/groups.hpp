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
  /// Whether it ends behind the other part of the same shard.
  [[nodiscard]] bool ends_behind(const ShardPart& other) const noexcept { return to * other.of > other.to * of; }
};

/// A shard in so many parts, at least 1: all of them equal; or each half of what the ones before it leave, and the last
/// two equal.
[[nodiscard]] std::vector<ShardPart> equal_parts(int count);
[[nodiscard]] std::vector<ShardPart> halving_parts(int count);

/// In how many parts each of two ranks sends the other's rows, of a run in so many groups. Sums that `travel_on` leave
/// in more parts than what is added to them comes in: each product costs something.
[[nodiscard]] constexpr int parts_sent_between_two(int groups, bool travel_on) noexcept {
  const int least = groups > 1 ? groups : 1;
  return travel_on && least > 2 ? 2 : least;
}

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
