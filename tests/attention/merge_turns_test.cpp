// SPDX-License-Identifier: Apache-2.0
#include "attention/merge_turns.hpp"

#include <cstdint>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "support/ranks.hpp"

namespace tandem::testing {
namespace {

TEST(MergeTurnsTest, MergesWholePartsInOneTurn) {
  const Shard all{0, 10};
  EXPECT_EQ(merge_turns(10, {all}), (std::vector<std::vector<MergeTurn>>{{{all, true, true}}}));
  EXPECT_EQ(merge_turns(10, {all, all, all}),
            (std::vector<std::vector<MergeTurn>>{{{all, true, false}}, {{all, false, false}}, {{all, false, true}}}));
  EXPECT_TRUE(merge_turns(10, {}).empty());
}

TEST(MergeTurnsTest, CutsPartsWhereOthersEnd) {
  const auto turns = merge_turns(10, {{5, 5}, {0, 10}, {5, 5}});
  ASSERT_EQ(turns.size(), 3U);
  EXPECT_EQ(turns[0], (std::vector<MergeTurn>{{{5, 5}, true, false}}));
  EXPECT_EQ(turns[1], (std::vector<MergeTurn>{{{0, 5}, true, true}, {{5, 5}, false, false}}));
  EXPECT_EQ(turns[2], (std::vector<MergeTurn>{{{5, 5}, false, true}}));
}

TEST(MergeTurnsTest, TouchesEachTokenOfAPartOnce) {
  std::mt19937_64 random(seed());
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int round = 0; round < 300; ++round) {
    const std::int64_t tokens = between(0, 30);
    std::vector<Shard> parts;
    for (std::int64_t i = between(0, 6); i > 0; --i) {
      const std::int64_t begin = between(0, tokens);
      parts.push_back({begin, between(0, tokens - begin)});
    }
    const auto turns = merge_turns(tokens, parts);
    ASSERT_EQ(turns.size(), parts.size());
    for (std::int64_t token = 0; token < tokens; ++token) {
      int merged = 0;
      int parts_with = 0;
      for (const Shard& part : parts) parts_with += part.begin <= token && token < part.begin + part.count ? 1 : 0;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        int here = 0;
        for (const MergeTurn& turn : turns[i]) {
          if (token < turn.range.begin || token >= turn.range.begin + turn.range.count) continue;
          ++here;
          ++merged;
          ASSERT_EQ(turn.first, merged == 1);
          ASSERT_EQ(turn.last, merged == parts_with);
        }
        ASSERT_EQ(here, parts[i].begin <= token && token < parts[i].begin + parts[i].count ? 1 : 0);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::testing
