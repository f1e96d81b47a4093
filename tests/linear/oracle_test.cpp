// SPDX-License-Identifier: Apache-2.0
#include "support/oracle.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <vector>

namespace tandem::testing {
namespace {

// GELU of -119.3 steps of f16's subnormals: its argument is stored as 119 steps, half of which rounds to 59 or to 60.
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
    const double result = dtype == f32 ? 0 : epsilon(dtype);
    EXPECT_NEAR(expected.allowed(0), 8 * epsilon(f32) + result, 20 * epsilon(dtype) * epsilon(dtype));
  }
}

TEST(Oracle, WhatIsRoundedOnTheWayCountsOnce) {
  for (const DType dtype : {f16, bf16}) {
    const std::vector<double> ones(4, 1.0);
    const Product product{.m = 1, .n = 1, .k = 4, .a = ones, .b = ones, .dtype = dtype};
    Product travelling = product;
    travelling.parts = {1, 3};
    travelling.travels = dtype;
    const double alone = expected_product(product).allowed(0);
    const double added_up = expected_product(travelling).allowed(0);
    EXPECT_NEAR(alone, 4 * epsilon(dtype), 0.1 * epsilon(dtype));
    EXPECT_NEAR(added_up, 8 * epsilon(dtype), 0.2 * epsilon(dtype));
  }
}

// As some cuBLASLt kernels were seen to round, in each order of the addends.
TEST(Oracle, AProductMayBeRoundedBeforeItIsAddedTo) {
  constexpr std::int64_t rows = 16;
  constexpr std::int64_t columns = 16;
  constexpr std::int64_t k = 64;
  for (const DType dtype : {f16, bf16}) {
    const std::vector<double> a = random_values(key(2, {0}), rows * k, dtype);
    const std::vector<double> b = random_values(key(2, {1}), k * columns, dtype);
    const std::vector<double> start = random_values(key(2, {2}), rows * columns, dtype);
    const std::vector<double> bias = random_values(key(2, {3}), columns, dtype);
    const Product product{.m = rows, .n = columns, .k = k, .a = a, .b = b, .beta = 1, .dtype = dtype};
    // The number of wrong elements of `scale` times the product, if the addends are added one after the other and the
    // result is rounded each time.
    using Addends = std::vector<const std::vector<double>*>;
    const auto wrong = [&](double scale, const Addends& addends, const Expected& expected) {
      std::vector<double> values = expected_product(product).value;
      std::vector<std::byte> out(values.size() * size_of(dtype));
      for (double& value : values) value *= scale;
      store(values, dtype, out.data());
      for (const std::vector<double>* addend : addends) {
        values = load(out.data(), rows * columns, dtype);
        for (std::size_t i = 0; i < values.size(); ++i) values[i] += (*addend)[i % addend->size()];
        store(values, dtype, out.data());
      }
      return compare(expected, out.data()).wrong;
    };
    for (const Addends& addends : {Addends{&start}, Addends{&bias}, Addends{&start, &bias}, Addends{&bias, &start}}) {
      Product sum = product;
      if (std::ranges::count(addends, &start) != 0) sum.start = start;
      if (std::ranges::count(addends, &bias) != 0) sum.bias = bias;
      EXPECT_GT(wrong(1, addends, expected_product(sum)), 0) << name(dtype) << ": only where it may";
      sum.rounds_between = true;
      EXPECT_EQ(wrong(1, addends, expected_product(sum)), 0) << name(dtype);
      EXPECT_GT(wrong(1 + 6 * epsilon(dtype), addends, expected_product(sum)), rows * columns / 2) << name(dtype);
    }
  }
}

// So many terms that, if sums were 16-bit, their accumulated rounding errors could exceed the sum itself.
TEST(Oracle, WrongSumsOfManyTermsAreSeen) {
  constexpr std::int64_t rows = 8;
  constexpr std::int64_t columns = 8;
  constexpr std::int64_t k = 8192;
  for (const DType dtype : {f32, f16, bf16}) {
    const std::vector<double> a = random_values(key(1, {0}), rows * k, dtype);
    const std::vector<double> b = random_values(key(1, {1}), k * columns, dtype);
    Product product{.m = rows, .n = columns, .k = k, .a = a, .b = b, .dtype = dtype};
    const Expected expected = expected_product(product);
    const auto wrong = [&](const std::vector<double>& values) {
      std::vector<std::byte> out(values.size() * size_of(dtype));
      store(values, dtype, out.data());
      return compare(expected, out.data()).wrong;
    };
    EXPECT_EQ(wrong(expected.value), 0) << name(dtype);
    EXPECT_EQ(wrong(expected.unfused), 0) << name(dtype);
    EXPECT_EQ(wrong(std::vector<double>(rows * columns)), rows * columns) << name(dtype);
    std::vector<double> shifted(expected.value.begin() + columns,
                                expected.value.end());  // each row has the next one's values
    shifted.insert(shifted.end(), expected.value.begin(), expected.value.begin() + columns);
    EXPECT_GE(wrong(shifted), rows * columns - 1) << name(dtype);
    std::vector<double> fewer = a;  // without the last quarter of the terms
    for (std::int64_t row = 0; row < rows; ++row) {
      std::fill_n(fewer.begin() + row * k + 3 * k / 4, k / 4, 0.0);
    }
    product.a = fewer;
    EXPECT_GE(wrong(expected_product(product).value), rows * columns - 1) << name(dtype);
  }
}

}  // namespace
}  // namespace tandem::testing
