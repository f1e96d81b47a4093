// SPDX-License-Identifier: Apache-2.0
#include "tandem/collective/shard.hpp"

#include <cstdint>
#include <gtest/gtest.h>
#include <vector>

namespace tandem {
namespace {

TEST(ShardOf, CoversEveryRowOnce) {
  for (std::int64_t m = 0; m < 40; ++m) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Shard rows = shard_of(m, ranks, rank);
        EXPECT_EQ(rows.begin, next);
        EXPECT_GE(rows.count, 0);
        next += rows.count;
      }
      EXPECT_EQ(next, m);
    }
  }
}

TEST(ShardOf, FirstRanksHaveAsManyRowsAsTheFirst) {
  const auto counts = [](std::int64_t m, int ranks) {
    std::vector<std::int64_t> each;
    for (int rank = 0; rank < ranks; ++rank) each.push_back(shard_of(m, ranks, rank).count);
    return each;
  };
  using Counts = std::vector<std::int64_t>;
  EXPECT_EQ(counts(10, 4), (Counts{3, 3, 3, 1}));
  EXPECT_EQ(counts(9, 4), (Counts{3, 3, 3, 0}));
  EXPECT_EQ(counts(6, 5), (Counts{2, 2, 2, 0, 0}));
  EXPECT_EQ(counts(2, 3), (Counts{1, 1, 0}));
  EXPECT_EQ(counts(0, 2), (Counts{0, 0}));
}

TEST(ShardOf, AnEmptyTeamIsEmpty) {
  EXPECT_EQ(shard_of(10, 0, -1), Shard{});
  EXPECT_EQ(longest_shard({10, 3}, 0), 0);
}

TEST(LongestShard, IsTheFirstRanks) {
  EXPECT_EQ(longest_shard({10, 3}, 4), 9);
  EXPECT_EQ(longest_shard({10}, 4), 3);
  EXPECT_EQ(longest_shard({1, 5, 2}, 3), 10);
  EXPECT_EQ(longest_shard({0, 5}, 3), 0);
  EXPECT_EQ(longest_shard({4, 0}, 3), 0);
  EXPECT_EQ(longest_shard(Dims{}, 3), 1);
}

}  // namespace
}  // namespace tandem
