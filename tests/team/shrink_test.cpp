// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <gtest/gtest.h>
#include <random>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/team/world.hpp"

#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using testing::run_ranks;
using testing::team_sizes;

enum class End { stays, leaves, exits, killed };

/// How and when a rank ends.
struct Fate {
  End end = End::stays;
  int step = 0;                        ///< before which barrier; not the first, or `init` might fail elsewhere
  std::chrono::microseconds delay{0};  ///< and how long after the one before
};

/// Different ends, many of them at once; rank `survivor` stays.
std::vector<Fate> fates(int ranks, std::mt19937_64& random, bool may_be_killed) {
  const int survivor = static_cast<int>(random() % static_cast<std::uint64_t>(ranks));
  std::vector<Fate> all(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    Fate& fate = all[static_cast<std::size_t>(rank)];
    fate.end = rank == survivor ? End::stays : static_cast<End>(random() % (may_be_killed ? 4 : 2));
    fate.step = 1 + static_cast<int>(random() % 3);
    fate.delay = std::chrono::microseconds(random() % 300);
  }
  return all;
}

/// Meets in barriers, in a smaller team after each loss, until the team is that of the ranks that stay.
void go_on(World& world, const std::vector<Fate>& fates) {
  std::vector<int> staying;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (fates[static_cast<std::size_t>(rank)].end == End::stays) staying.push_back(rank);
  }
  const Fate& mine = fates[static_cast<std::size_t>(world.rank())];
  Team team = world.team();
  for (int step = 0; !std::ranges::equal(team.members(), staying); ++step) {
    if (mine.end != End::stays && step >= mine.step) {
      std::this_thread::sleep_for(mine.delay);
      if (mine.end == End::killed) ::kill(::getpid(), SIGKILL);
      if (mine.end == End::exits) ::_exit(3);
      return;
    }
    try {
      team.barrier();
    } catch (const PeerLost& lost) {
      EXPECT_EQ(std::ranges::count(world.gone(), lost.rank()), 1) << lost.what();
      team = world.team().shrink();
      EXPECT_TRUE(std::ranges::includes(team.members(), staying)) << "a rank that stays was left out";
    }
  }
  team.barrier();
  EXPECT_FALSE(team.failed());
}

TEST(TeamShrink, OfATeamWithoutLossesHasItsMembers) {
  for (const int ranks : team_sizes()) {
    run_ranks(ranks, [](World& world) {
      std::vector<int> reversed;
      for (int rank = world.size() - 1; rank >= 0; --rank) reversed.push_back(rank);
      const Team team = world.team(reversed);
      const Team again = team.shrink();
      EXPECT_NE(again, team);
      EXPECT_TRUE(std::ranges::equal(again.members(), reversed));
      again.barrier();
      team.barrier();
    });
  }
}

TEST(TeamShrink, MembersThatAreLeftAgreeHoweverManyLeave) {
  std::mt19937_64 random(testing::seed());
  for (const int ranks : {2, 3, 5, 8}) {
    for (int round = 0; round < 6; ++round) {
      const std::vector<Fate> all = fates(ranks, random, false);
      run_ranks(ranks, [&](World& world) { go_on(world, all); }, {.kind = testing::RankKind::threads, .limit = 60s});
    }
  }
}

TEST(TeamShrink, MembersThatAreLeftAgreeHoweverManyDie) {
  if (const std::string reason = testing::why_no_rank_may_die(); !reason.empty()) GTEST_SKIP() << reason;
  std::mt19937_64 random(testing::seed());
  for (const int ranks : {2, 3, 5, 8}) {
    for (int round = 0; round < 12; ++round) {
      const std::vector<Fate> all = fates(ranks, random, true);
      std::vector<int> may_die;
      for (int rank = 0; rank < ranks; ++rank) {
        if (all[static_cast<std::size_t>(rank)].end >= End::exits) may_die.push_back(rank);
      }
      run_ranks(ranks, [&](World& world) { go_on(world, all); }, {.limit = 60s, .may_die = may_die});
    }
  }
}

TEST(TeamShrink, NamesAMemberThatDoesNotCome) {
  testing::RankOptions options;
  options.env.timeout = 500ms;
  run_ranks(
      3,
      [](World& world) {
        const Team team = world.team({2, 0});
        if (team && world.rank() == 0) {
          testing::expect_error<Timeout>([&] { static_cast<void>(team.shrink()); }, {"rank 2", "500 ms"});
        }
        world.team().set_timeout(20s);
        world.team().barrier();
      },
      options);
}

}  // namespace
}  // namespace tandem
