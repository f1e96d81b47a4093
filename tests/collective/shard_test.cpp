// SPDX-License-Identifier: Apache-2.0
#include "tandem/collective/shard.hpp"

#include <cstdint>
#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(ShardOf, CoversEveryRowOnce) {
  for (std::int64_t m = 0; m < 40; ++m) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Shard rows = shard_of(m, ranks, rank);
        EXPECT_EQ(rows.begin, next);
        EXPECT_GE(rows.count, 0);
        next += rows.count;
      }
      EXPECT_EQ(next, m);
    }
  }
}

}  // namespace
}  // namespace tandem
