// SPDX-License-Identifier: Apache-2.0
#include "attention/attention_schedule.hpp"

#include <algorithm>
#include <cstdint>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "support/ranks.hpp"

namespace tandem::testing {
namespace {

using Pair = std::pair<std::int64_t, std::int64_t>;

bool sees(const AttentionBand& band, std::int64_t query, std::int64_t key) {
  return (!band.left || key >= query - *band.left) && (!band.right || key <= query + *band.right);
}

/// The sequence's tokens that a rank has, in its order.
std::vector<std::int64_t> sequence_of(const ContextParallelSpec& spec, int ranks, int rank) {
  std::vector<std::int64_t> tokens;
  for (const Shard& range : tokens_of(spec.split, spec.tokens, ranks, rank)) {
    for (std::int64_t i = 0; i < range.count; ++i) tokens.push_back(range.begin + i);
  }
  return tokens;
}

/// Counts the pairs of a query and a key that a block has.
void count(const AttentionBlock& block, const std::vector<std::int64_t>& queries, const std::vector<std::int64_t>& keys,
           std::map<Pair, int>& pairs) {
  ASSERT_GT(block.queries.count, 0);
  ASSERT_GT(block.keys.count, 0);
  ASSERT_LE(block.queries.begin + block.queries.count, static_cast<std::int64_t>(queries.size()));
  ASSERT_LE(block.keys.begin + block.keys.count, static_cast<std::int64_t>(keys.size()));
  ASSERT_GE(block.band.left.value_or(0), 0);
  ASSERT_GE(block.band.right.value_or(0), 0);
  for (std::int64_t i = 0; i < block.queries.count; ++i) {
    bool any = false;
    for (std::int64_t j = 0; j < block.keys.count; ++j) {
      if (!sees(block.band, i, j)) continue;
      any = true;
      ++pairs[{queries[static_cast<std::size_t>(block.queries.begin + i)],
               keys[static_cast<std::size_t>(block.keys.begin + j)]}];
    }
    ASSERT_TRUE(any) << "query " << i << " of a block sees no key";
  }
}

void check(const ContextParallelSpec& spec, int ranks) {
  SCOPED_TRACE(::testing::Message() << spec.tokens << " tokens, " << ranks << " ranks, " << name(spec.split)
                                    << ", left " << spec.band.left.value_or(-1) << ", right "
                                    << spec.band.right.value_or(-1));
  std::map<Pair, int> pairs;
  std::vector<AttentionSchedule> schedules;
  std::vector<std::vector<std::int64_t>> sequences;
  std::vector<int> owned(static_cast<std::size_t>(spec.tokens));
  for (int rank = 0; rank < ranks; ++rank) {
    schedules.emplace_back(spec, ranks, rank);
    sequences.push_back(sequence_of(spec, ranks, rank));
    ASSERT_EQ(schedules.back().tokens(), static_cast<std::int64_t>(sequences.back().size()));
    for (const std::int64_t token : sequences.back()) ++owned[static_cast<std::size_t>(token)];
  }
  ASSERT_TRUE(std::ranges::all_of(owned, [](int ranks_with) { return ranks_with == 1; }));
  for (int rank = 0; rank < ranks; ++rank) {
    const AttentionSchedule& schedule = schedules[static_cast<std::size_t>(rank)];
    const std::vector<std::int64_t>& mine = sequences[static_cast<std::size_t>(rank)];
    std::vector<int> queries(mine.size());
    std::vector<int> keys(mine.size());
    std::int64_t fresh = 0;
    for (const AttentionBlock& block : schedule.own()) {
      count(block, mine, mine, pairs);
      if (block.queries != block.keys) continue;
      ASSERT_EQ(block.queries.begin, fresh) << "own blocks begin with all tokens";
      fresh += block.queries.count;
    }
    ASSERT_EQ(fresh, schedule.tokens());
    int distance = 0;
    for (const AttentionSchedule::Fetch& fetch : schedule.fetches()) {
      ASSERT_GT(fetch.distance, distance);
      distance = fetch.distance;
      ASSERT_EQ(fetch.rank, (rank + distance) % ranks);
      const std::vector<std::int64_t>& theirs = sequences[static_cast<std::size_t>(fetch.rank)];
      ASSERT_LE(fetch.keys.begin + fetch.keys.count, static_cast<std::int64_t>(theirs.size()));
      const std::vector<std::int64_t> fetched(theirs.begin() + fetch.keys.begin,
                                              theirs.begin() + fetch.keys.begin + fetch.keys.count);
      for (const AttentionBlock& block : fetch.blocks) count(block, mine, fetched, pairs);
      const auto& returns = schedules[static_cast<std::size_t>(fetch.rank)].returns();
      const auto back = std::ranges::find(returns, rank, &AttentionSchedule::Return::rank);
      ASSERT_TRUE(back != returns.end());
      ASSERT_EQ(back->keys, fetch.keys);
      ASSERT_EQ(back->distance, fetch.distance);
    }
    for (const AttentionSchedule::Return& back : schedule.returns()) {
      const auto& fetches = schedules[static_cast<std::size_t>(back.rank)].fetches();
      ASSERT_TRUE(std::ranges::find(fetches, rank, &AttentionSchedule::Fetch::rank) != fetches.end());
    }
    ASSERT_TRUE(std::ranges::is_sorted(schedule.returns(), {}, &AttentionSchedule::Return::distance));
  }
  for (std::int64_t query = 0; query < spec.tokens; ++query) {
    for (std::int64_t key = 0; key < spec.tokens; ++key) {
      const auto found = pairs.find({query, key});
      const int times = found == pairs.end() ? 0 : found->second;
      ASSERT_EQ(times, sees(spec.band, query, key) ? 1 : 0) << "query " << query << ", key " << key;
    }
  }
}

TEST(AttentionScheduleTest, HasEachVisiblePairOnce) {
  for (const SequenceSplit split : {SequenceSplit::zigzag, SequenceSplit::contiguous}) {
    for (const int ranks : {1, 2, 3, 4, 5, 8}) {
      for (const std::int64_t tokens : {0, 1, 2, 7, 16, 40, 61}) {
        for (const AttentionBand& band :
             {AttentionBand{}, AttentionBand{.right = 0}, AttentionBand{.left = 0, .right = 0},
              AttentionBand{.left = 5, .right = 0}, AttentionBand{.left = 17, .right = 0}, AttentionBand{.left = 3},
              AttentionBand{.left = 2, .right = 9}, AttentionBand{.right = 4}, AttentionBand{.left = 1, .right = 1}}) {
          check({.tokens = tokens, .band = band, .split = split}, ranks);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(AttentionScheduleTest, HasEachVisiblePairOnceInRandomCases) {
  std::mt19937_64 random(seed());
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 200; ++i) {
    AttentionBand band;
    if (between(0, 1) == 1) band.left = between(0, 40);
    if (between(0, 1) == 1) band.right = between(0, 40);
    check({.tokens = between(0, 60),
           .band = band,
           .split = between(0, 1) == 1 ? SequenceSplit::zigzag : SequenceSplit::contiguous},
          static_cast<int>(between(1, 9)));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(AttentionScheduleTest, SharesCausalWorkEvenly) {
  const ContextParallelSpec spec{.tokens = 64, .band = {.right = 0}};
  for (int rank = 0; rank < 4; ++rank) {
    const AttentionSchedule schedule(spec, 4, rank);
    ASSERT_EQ(schedule.own().size(), 1U);
    ASSERT_EQ(schedule.fetches().size(), 3U);
    for (const AttentionSchedule::Fetch& fetch : schedule.fetches()) {
      ASSERT_EQ(fetch.blocks.size(), 1U);
      EXPECT_TRUE(fetch.blocks.front().band.sees_all());
      EXPECT_EQ(fetch.blocks.front().queries.count * fetch.blocks.front().keys.count, 16 * 16 / 2);
      // Of a rank before this one only the first chunk is seen, and no more is fetched.
      EXPECT_EQ(fetch.keys.count, fetch.rank < rank ? 8 : 16);
    }
  }
}

TEST(AttentionScheduleTest, AWindowFetchesFromNeighboursOnly) {
  const ContextParallelSpec spec{.tokens = 80, .band = {.left = 12, .right = 0}, .split = SequenceSplit::contiguous};
  for (int rank = 0; rank < 8; ++rank) {
    const AttentionSchedule schedule(spec, 8, rank);
    std::vector<int> from;
    for (const AttentionSchedule::Fetch& fetch : schedule.fetches()) from.push_back(fetch.rank);
    std::ranges::sort(from);
    std::vector<int> expected;
    for (int other = std::max(rank - 2, 0); other < rank; ++other) expected.push_back(other);
    EXPECT_EQ(from, expected) << "rank " << rank;
  }
}

}  // namespace
}  // namespace tandem::testing
