// SPDX-License-Identifier: Apache-2.0
#include "linear/groups.hpp"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <numeric>

namespace tandem {
namespace {

/// Expects the groups' parts to cover each shard from its beginning to its end, one shard after the other.
void expect_all_in_order(const std::vector<ShardGroup>& groups, int shards) {
  int shard = 0;
  int at = 0;
  int of = 0;  // all parts of a shard count in the same units
  for (const ShardGroup& group : groups) {
    EXPECT_FALSE(group.empty());
    for (const ShardPart& part : group) {
      EXPECT_EQ(part.shard, shard);
      if (at == 0) of = part.of;
      EXPECT_EQ(part.of, of);
      EXPECT_EQ(part.from, at);
      EXPECT_EQ(part.from == 0, at == 0);
      EXPECT_GT(part.to, part.from);
      at = part.ends_shard() ? 0 : part.to;
      shard += part.ends_shard() ? 1 : 0;
    }
  }
  EXPECT_EQ(shard, shards);
  EXPECT_EQ(at, 0);
}

TEST(Groups, PartsAreEqual) {
  for (int count = 1; count <= 8; ++count) {
    const std::vector<ShardPart> parts = equal_parts(count);
    EXPECT_EQ(parts.size(), static_cast<std::size_t>(count));
    expect_all_in_order({parts}, 1);
    for (const ShardPart& part : parts) EXPECT_DOUBLE_EQ(size_in_shards({part}), 1.0 / count);
  }
}

TEST(Groups, PartsGrowOrShrinkByOddNumbers) {
  for (int count = 1; count <= 8; ++count) {
    const std::vector<ShardPart> grow = growing_parts(count);
    const std::vector<ShardPart> shrink = shrinking_parts(count);
    EXPECT_EQ(grow.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(shrink.size(), static_cast<std::size_t>(count));
    expect_all_in_order({grow}, 1);
    expect_all_in_order({shrink}, 1);
    for (std::size_t i = 0; i < grow.size(); ++i) {
      EXPECT_DOUBLE_EQ(size_in_shards({grow[i]}), (2.0 * static_cast<double>(i) + 1) / (count * count));
      EXPECT_DOUBLE_EQ(size_in_shards({grow[i]}), size_in_shards({shrink[grow.size() - 1 - i]}));
    }
  }
}

TEST(Groups, NoPartOfManyRowsIsEmptyAndPartsOfRowsGrowOrShrink) {
  for (int count = 1; count <= 8; ++count) {
    for (const std::int64_t rows : {64, 65, 100, 683, 1366, 2048, 4099}) {
      const auto counts = [&](const std::vector<ShardPart>& parts) {
        std::vector<std::int64_t> result;
        std::int64_t next = 0;
        for (const ShardPart& part : parts) {
          const Shard range = part_rows(rows, 1, 0, part);
          EXPECT_EQ(range.begin, next);
          EXPECT_GT(range.count, 0) << count << " parts of " << rows;
          next += range.count;
          result.push_back(range.count);
        }
        EXPECT_EQ(next, rows);
        return result;
      };
      counts(equal_parts(count));
      EXPECT_TRUE(std::ranges::is_sorted(counts(growing_parts(count)))) << count << " parts of " << rows;
      EXPECT_TRUE(std::ranges::is_sorted(counts(shrinking_parts(count)), std::greater<>()))
          << count << " parts of " << rows;
    }
  }
}

TEST(Groups, HoldEachShardOnceAndInOrder) {
  for (int shards = 0; shards <= 8; ++shards) {
    for (int groups = 1; groups <= 4 * shards; ++groups) {
      const std::vector<ShardGroup> equal = equal_groups(shards, groups);
      const std::vector<ShardGroup> arriving = arriving_groups(shards, groups);
      EXPECT_EQ(equal.size(), static_cast<std::size_t>(groups));
      EXPECT_EQ(arriving.size(), static_cast<std::size_t>(groups));
      expect_all_in_order(equal, shards);
      expect_all_in_order(arriving, shards);
      for (const ShardGroup& group : equal) {
        EXPECT_NEAR(size_in_shards(group), static_cast<double>(shards) / groups, 1e-12);
      }
    }
  }
  EXPECT_TRUE(equal_groups(0, 1).empty());
  EXPECT_TRUE(arriving_groups(0, 1).empty());
}

TEST(Groups, OfWholeShardsGrow) {
  for (int groups = 1; groups <= 8; ++groups) {
    double before = 0;
    for (const ShardGroup& group : arriving_groups(8, groups)) {
      for (const ShardPart& part : group) EXPECT_TRUE(part.from == 0 && part.ends_shard());
      EXPECT_GE(size_in_shards(group), before);
      before = size_in_shards(group);
    }
  }
}

TEST(Groups, HaveEachRowOnceAlsoOfShortAndEmptyShards) {
  for (const std::int64_t m : {0, 1, 3, 7, 64, 1000, 4096}) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      std::vector<int> owners(static_cast<std::size_t>(ranks));
      std::iota(owners.begin(), owners.end(), 0);
      for (int groups = 1; groups <= 4 * ranks; ++groups) {
        std::int64_t next = 0;
        for (const ShardGroup& group : equal_groups(ranks, groups)) {
          std::int64_t parts = 0;
          for (const ShardPart& part : group) {
            parts += part_rows(m, ranks, owners[static_cast<std::size_t>(part.shard)], part).count;
          }
          const std::vector<Shard> rows = group_rows(m, ranks, owners, group);
          ASSERT_EQ(rows.size(), parts == 0 ? 0U : 1U) << "what lies together is one range";
          if (rows.empty()) continue;
          EXPECT_EQ(rows[0].begin, next);
          EXPECT_EQ(rows[0].count, parts);
          next += parts;
        }
        EXPECT_EQ(next, m);
      }
    }
  }
}

TEST(Groups, RowsOfOwnersThatBeginInTheMiddleAreTwoRanges) {
  const std::vector<int> owners{2, 0};
  const std::vector<Shard> rows = group_rows(30, 3, owners, whole_shards(0, 2));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].begin, 0);
  EXPECT_EQ(rows[0].count, 10);
  EXPECT_EQ(rows[1].begin, 20);
  EXPECT_EQ(rows[1].count, 10);
}

}  // namespace
}  // namespace tandem
