// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <gtest/gtest.h>
#include <random>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/team/world.hpp"

#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace tandem {
namespace {

using testing::run_ranks;
using testing::team_sizes;

std::vector<int> members_of(const Team& team) { return {team.members().begin(), team.members().end()}; }

TEST(TeamSplit, GivesEachColorItsMembersInOrderOfTheirKeys) {
  for (const int ranks : team_sizes()) {
    run_ranks(ranks, [seed = testing::seed()](World& world) {
      std::mt19937_64 random(seed);  // the same choices on all ranks
      std::vector<int> order(static_cast<std::size_t>(world.size()));
      for (std::size_t r = 0; r < order.size(); ++r) order[r] = static_cast<int>(r);
      for (int round = 0; round < 8; ++round) {
        std::shuffle(order.begin(), order.end(), random);
        const Team whole = world.team(order);
        std::vector<std::pair<int, int>> given;  // color and key of each rank of `whole`
        for (int r = 0; r < whole.size(); ++r) {
          given.emplace_back(static_cast<int>(random() % 4) - 1, static_cast<int>(random() % 3) - 1);
        }
        const auto [color, key] = given[static_cast<std::size_t>(whole.rank())];
        const Team team = whole.split(color, key);
        if (color < 0) {
          EXPECT_FALSE(team);
          continue;
        }
        std::vector<std::pair<int, int>> expected;  // key and place in `whole`
        for (int r = 0; r < whole.size(); ++r) {
          const auto [its_color, its_key] = given[static_cast<std::size_t>(r)];
          if (its_color == color) expected.emplace_back(its_key, r);
        }
        std::sort(expected.begin(), expected.end());
        std::vector<int> members;
        for (const auto& [its_key, r] : expected) members.push_back(whole.world_rank(r));
        EXPECT_EQ(members_of(team), members);
        EXPECT_EQ(team.world_rank(team.rank()), world.rank());
        team.barrier();
      }
    });
  }
}

TEST(TeamSplit, MakesTheRowsAndColumnsOfAMesh) {
  run_ranks(8, [](World& world) {
    const Team team = world.team();
    const Team row = team.split(team.rank() / 4);
    const Team column = team.split(team.rank() % 4);
    EXPECT_EQ(members_of(row), world.rank() < 4 ? (std::vector<int>{0, 1, 2, 3}) : (std::vector<int>{4, 5, 6, 7}));
    EXPECT_EQ(members_of(column), (std::vector<int>{world.rank() % 4, world.rank() % 4 + 4}));
    row.barrier();
    column.barrier();
  });
}

TEST(TeamSplit, IsOneOfTheCallsThatMembersMakeInOrder) {
  run_ranks(2, [](World& world) {
    const Team team = world.team();
    testing::expect_error<InvalidArgument>(
        [&] {
          if (team.rank() == 0) {
            static_cast<void>(team.split(0));
          } else {
            team.barrier();
          }
        },
        {"split", "barrier"});
    EXPECT_EQ(team.split(0).size(), 2);  // they are still in step
  });
}

}  // namespace
}  // namespace tandem
