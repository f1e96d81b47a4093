// SPDX-License-Identifier: Apache-2.0
// What every plan does, whatever it is a plan of.
#include "tandem/collective/plan.hpp"

#include <cstdint>
#include <gtest/gtest.h>

#include "tandem/collective/all_reduce.hpp"

#include "support/ranks.hpp"

namespace tandem::testing {
namespace {

TEST(Plans, ThousandsOfAKindLeaveOneName) {
  run_ranks(1, [](World& world) {
    const Team& team = world.team();
    const std::uint32_t first = team.register_operation("first");
    for (int i = 0; i < 10'000; ++i) AllReduce(team, {.count = 10, .dtype = f32});
    EXPECT_LE(team.register_operation("last") - first, 10U);
  });
}

}  // namespace
}  // namespace tandem::testing
