// SPDX-License-Identifier: Apache-2.0
#include "sharded/residency.hpp"

#include <cstddef>
#include <gtest/gtest.h>
#include <map>
#include <vector>

#include "support/draws.hpp"

namespace tandem {
namespace {

using Placements = std::vector<Residency::Placement>;

const std::vector<int> forth_and_back{0, 1, 2, 3, 3, 2, 1, 0};

/// How many gathers each of `steps` walks through the order takes; checks that every use finds its group.
std::vector<std::size_t> gathers_of(const std::vector<int>& order, int buffers, int steps, bool around) {
  Residency residency(order, buffers);
  std::map<int, int> held;  // by buffer
  std::vector<std::size_t> gathers;
  std::size_t count = 0;
  const auto place = [&] {
    for (const auto& [group, buffer] : residency.place(around)) {
      EXPECT_GE(buffer, 0);
      EXPECT_LT(buffer, buffers);
      held[buffer] = group;
      ++count;
    }
  };
  for (int step = 0; step < steps; ++step) {
    count = 0;
    for (const int group : order) {
      place();
      EXPECT_EQ(residency.next(), group);
      const auto buffer = residency.buffer_of(group);
      EXPECT_TRUE(buffer && held.at(*buffer) == group);
      residency.advance();
    }
    EXPECT_EQ(residency.position(), 0U);
    if (!around) residency.clear();
    gathers.push_back(count);
  }
  return gathers;
}

TEST(Residency, GathersAheadIntoBuffersInTurns) {
  Residency residency({0, 1, 2}, 2);
  EXPECT_EQ(residency.place(true), (Placements{{0, 0}, {1, 1}}));
  EXPECT_EQ(residency.place(true), Placements{});
  residency.advance();
  EXPECT_EQ(residency.place(true), (Placements{{2, 0}}));
  residency.advance();
  EXPECT_EQ(residency.place(true), (Placements{{0, 1}}));
  EXPECT_EQ(residency.buffer_of(1), std::nullopt);
  residency.clear();
  EXPECT_EQ(residency.next(), 0);
  EXPECT_EQ(residency.buffer_of(0), std::nullopt);
}

TEST(Residency, EndsWithTheOrderUnlessItGoesAround) {
  Residency residency({0, 1, 2}, 2);
  EXPECT_EQ(residency.place(false).size(), 2U);
  residency.advance();
  EXPECT_EQ(residency.place(false), (Placements{{2, 0}}));
  residency.advance();
  EXPECT_EQ(residency.place(false), Placements{});
}

// The last groups of the forward pass are the first of the backward pass, and these come back to the first ones.
TEST(Residency, GathersNothingThatIsStillThere) {
  EXPECT_EQ(gathers_of(forth_and_back, 1, 3, true), (std::vector<std::size_t>{7, 6, 6}));
  EXPECT_EQ(gathers_of(forth_and_back, 2, 3, true), (std::vector<std::size_t>{6, 4, 4}));
  EXPECT_EQ(gathers_of(forth_and_back, 3, 3, true), (std::vector<std::size_t>{5, 2, 2}));
  EXPECT_EQ(gathers_of(forth_and_back, 4, 3, true), (std::vector<std::size_t>{4, 0, 0}));
  EXPECT_EQ(gathers_of(forth_and_back, 9, 2, true), (std::vector<std::size_t>{4, 0}));
  EXPECT_EQ(gathers_of(forth_and_back, 2, 2, false), (std::vector<std::size_t>{6, 6}));
  EXPECT_EQ(gathers_of({0}, 2, 2, true), (std::vector<std::size_t>{1, 0}));
}

TEST(Residency, EveryUseFindsItsGroupInRandomOrders) {
  testing::Draws draws(7);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<int> order;
    const std::size_t uses = 1 + draws.below(12);
    while (order.size() < uses) order.push_back(static_cast<int>(draws.below(6)));
    const int buffers = static_cast<int>(1 + draws.below(5));
    gathers_of(order, buffers, 3, draws.below(2) == 0);
  }
}

}  // namespace
}  // namespace tandem
