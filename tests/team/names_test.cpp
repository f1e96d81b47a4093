// SPDX-License-Identifier: Apache-2.0
#include "team/names.hpp"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace tandem {
namespace {

std::string named(const std::vector<int>& ranks) { return name_ranks(ranks); }

TEST(Names, OfRanksInARowAreTheFirstAndTheLast) {
  EXPECT_EQ(named({3}), "rank 3");
  EXPECT_EQ(named({0, 2, 5}), "ranks 0, 2 and 5");
  EXPECT_EQ(named({1, 2}), "ranks 1 and 2");
  EXPECT_EQ(named({1, 2, 3}), "ranks 1 to 3");
  EXPECT_EQ(named({0, 1, 2, 3, 5}), "ranks 0 to 3 and 5");
  EXPECT_EQ(named({0, 2, 3, 7, 8, 9}), "ranks 0, 2, 3 and 7 to 9");
}

}  // namespace
}  // namespace tandem
