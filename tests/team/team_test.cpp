// SPDX-License-Identifier: Apache-2.0
#include "tandem/team/team.hpp"

#include <gtest/gtest.h>
#include <string>

#include "tandem/base/error.hpp"

#include "support/ranks.hpp"

namespace tandem {
namespace {

using testing::run_ranks;

TEST(Team, WorldOfEverySizeMeets) {
  for (const int ranks : testing::team_sizes()) {
    run_ranks(ranks, [ranks](World& world) {
      EXPECT_EQ(world.size(), ranks);
      EXPECT_EQ(world.team().size(), ranks);
      EXPECT_EQ(world.team().rank(), world.rank());
      world.team().barrier();
      world.team().agree("what", "the same");
    });
  }
}

}  // namespace
}  // namespace tandem
