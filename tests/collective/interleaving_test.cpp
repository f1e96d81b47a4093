// SPDX-License-Identifier: Apache-2.0
// Back-to-back runs: reuse of buffers and slots, several plans, teams and streams at once.
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/collective/all_reduce.hpp"

#include "collective/player.hpp"
#include "collective/support.hpp"

namespace tandem::testing {
namespace {

class InterleavingTest : public CollectiveTest {};

constexpr int runs = 200;
constexpr std::uint64_t longest_delay_us = 2000;

void play_and_check(World& world) {
  Player<std::int32_t> player(world.team(), 1, runs);
  for (int run = 0; run < runs; ++run) player.play(longest_delay_us);
  player.check();
}

TEST_P(InterleavingTest, RunsFollowEachOtherWithoutAPause) { run(play_and_check); }

TEST_P(InterleavingTest, RanksAsThreads) {
  if (device() != DeviceType::host) GTEST_SKIP() << "ranks as threads are for the host";
  run(play_and_check, RankKind::threads);
}

TEST_P(InterleavingTest, TwoTeamsAndTwoStreamsAtOnce) {
  run([](World& world) {
    std::vector<int> backwards;
    for (int rank = world.size() - 1; rank >= 0; --rank) backwards.push_back(rank);
    Player<std::int32_t> one(world.team(), 3, runs);
    Player<float> two(world.team(backwards), 4, runs);
    Draws order(5);
    for (int run = 0; run < runs; ++run) {
      if (order.below(2) == 0) {
        one.play(longest_delay_us);
      } else {
        two.play(longest_delay_us);
      }
    }
    one.check();
    two.check();
  });
}

TEST_P(InterleavingTest, OnePlanOnChangingStreams) {
  run([](World& world) {
    constexpr int links = 12;
    const Team& team = world.team();
    const std::array<Stream, 3> streams{Stream(team.device()), Stream(team.device()), Stream(team.device())};
    AllReduce all_reduce(team, {.count = 5000, .dtype = i64}, {.piece_bytes = 4096});
    // A chain: each run sums the previous one's result. A run that begins before the previous one ended sums poison.
    std::vector<GuardedTensor> chain;
    for (int link = 0; link <= links; ++link) chain.emplace_back(team, Dims{5000}, i64);
    std::vector<std::int64_t> wanted(5000);
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<std::int64_t>(i);
    chain.front().set(std::as_bytes(std::span(wanted)));
    Draws draws(6);
    for (std::size_t link = 0; link < links; ++link) {
      const Stream& stream = streams[draws.below(3)];
      delay_somebody(team, stream, draws, 500);
      all_reduce(chain[link].view(), chain[link + 1].view(), stream);
    }
    for (const Stream& stream : streams) team.synchronize(stream);
    for (std::size_t link = 1; link <= links; ++link) {
      for (std::int64_t& value : wanted) value *= team.size();
      const auto expected = std::as_bytes(std::span(wanted));
      expect_bytes(chain[link].get(), {expected.begin(), expected.end()}, "run " + std::to_string(link));
    }
  });
}

TANDEM_COLLECTIVE_SUITE(InterleavingTest);

class CollectiveStress : public ::testing::TestWithParam<int> {};

/// Each `sequence` gives a different series of operations, counts and delays.
template <typename Element> void stress(World& world, std::uint64_t sequence, int batches) {
  // Small operations take one piece, large ones a few.
  Player<Element> player(world.team(), sequence, runs, {.small = 50, .large = 1500});
  for (int batch = 0; batch < batches; ++batch) {
    for (int run = 0; run < runs; ++run) player.play(500);
    player.check();
  }
}

/// 10^5 operations of all kinds, in four dtypes, on teams of 2, 3 and 4, with random ranks delayed at random points;
/// TANDEM_TEST_SCALE scales the number.
TEST_P(CollectiveStress, RandomOperationsAndDelays) {
  const auto batches = static_cast<int>(std::ceil(1e5 / 3 / 4 / runs * stress_scale()));
  run_ranks(GetParam(),
            [batches](World& world) {
              stress<std::int32_t>(world, 100, batches);
              stress<float>(world, 101, batches);
              stress<std::int64_t>(world, 102, batches);
              stress<double>(world, 103, batches);
            },
            {.limit = std::chrono::seconds(280)});
}

INSTANTIATE_TEST_SUITE_P(Ranks, CollectiveStress, ::testing::Values(2, 3, 4), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace tandem::testing
