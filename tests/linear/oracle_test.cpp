// SPDX-License-Identifier: Apache-2.0
#include "support/oracle.hpp"

#include <gtest/gtest.h>

namespace tandem::testing {
namespace {

// GELU of -119.3 steps between f16's smallest numbers: what it is applied to is kept as 119 of them, half of which is
// rounded to 59 or to 60.
TEST(Oracle, SmallNumbersOfF16MayBeAStepOff) {
  constexpr double step = 0x1p-24;
  const Expected expected{.value = {-59.66 * step, 0},
                          .unfused = {-60 * step, 0},
                          .magnitude = {119.3 * step, 0},
                          .terms = 8,
                          .dtype = f16};
  EXPECT_GT(expected.allowed(0), 0.66 * step);
  EXPECT_LT(expected.allowed(0), 4 * step);
  EXPECT_EQ(expected.allowed(1), 0);
}

TEST(Oracle, OtherNumbersMayBeOffByTheirRoundings) {
  for (const DType dtype : {f32, f16, bf16}) {
    const Expected expected{.value = {1}, .unfused = {1}, .magnitude = {2}, .terms = 8, .dtype = dtype};
    EXPECT_EQ(expected.allowed(0), 8 * epsilon(dtype));
  }
}

}  // namespace
}  // namespace tandem::testing
