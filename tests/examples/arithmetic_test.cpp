// SPDX-License-Identifier: Apache-2.0
#include "language_model/arithmetic.hpp"

#include <gtest/gtest.h>

#include "language_model/random.hpp"
#include "support/ranks.hpp"

namespace tandem::language_model {
namespace {

constexpr std::uint64_t samples = 50;

Matrix random_matrix(std::size_t rows, std::size_t columns, std::uint64_t key) {
  Matrix a(rows, columns);
  for (std::size_t i = 0; i < a.value.size(); ++i) a.value[i] = random_normal(key, i);
  return a;
}

/// The mean squared difference between sampled and counted values, relative to the counted variance.
template <typename Compute> double moved(DType dtype, std::uint64_t seed, const Compute& compute) {
  const Matrix counted = compute(Arithmetic::counting(dtype));
  double sum = 0;
  for (std::uint64_t key = 0; key < samples; ++key) {
    const Matrix sampled = compute(Arithmetic::sampling(dtype, random_bits(seed, key)));
    for (std::size_t i = 0; i < counted.value.size(); ++i) {
      sum += squared(sampled.value[i] - counted.value[i]) / counted.variance[i];
    }
  }
  return sum / static_cast<double>(samples * counted.value.size());
}

TEST(Arithmetic, MultipliesAndTransposes) {
  const std::uint64_t seed = testing::seed();
  for (const auto& [m, n, k] : {std::array<std::size_t, 3>{1, 1, 1}, {4, 256, 4}, {5, 257, 3}, {7, 600, 9}}) {
    const Matrix a = random_matrix(m, k, seed);
    const Matrix b = random_matrix(n, k, seed + 1);
    const Matrix c = Arithmetic::counting(f32).product(a, transposed(b));
    for (std::size_t i = 0; i < m * n; ++i) {
      double wanted = 0;
      for (std::size_t l = 0; l < k; ++l) wanted += a.value[i / n * k + l] * b.value[i % n * k + l];
      EXPECT_NEAR(c.value[i], wanted, 1e-13) << m << "·" << n << "·" << k << ", element " << i << ", seed " << seed;
    }
  }
}

TEST(Arithmetic, CountsWhatIndependentErrorsComeTo) {
  const std::uint64_t seed = testing::seed();
  for (const DType dtype : {f32, bf16}) {
    const double ratio = moved(dtype, seed, [&](Arithmetic arithmetic) {
      const Matrix a = arithmetic.product(random_matrix(9, 40, seed), random_matrix(40, 30, seed + 1));
      return arithmetic.product(arithmetic.sum(a, random_matrix(9, 30, seed + 2)), random_matrix(30, 20, seed + 3));
    });
    EXPECT_GT(ratio, 0.8) << "seed " << seed;
    EXPECT_LT(ratio, 1.25) << "seed " << seed;
  }
}

TEST(Arithmetic, SamplesWhatSharedErrorsAddUpTo) {
  constexpr std::size_t terms = 64;
  const double ratio = moved(f32, testing::seed(), [&](Arithmetic arithmetic) {
    Matrix row(1, terms);
    const auto [by, left] = arithmetic.shared(1e-6);
    for (std::size_t i = 0; i < terms; ++i) {
      row.value[i] = 1 + by;
      row.variance[i] = left;
    }
    Matrix ones(terms, 1);
    std::fill(ones.value.begin(), ones.value.end(), 1.0);
    return arithmetic.product(row, ones);
  });
  EXPECT_NEAR(ratio, terms, 0.01 * terms);
}

}  // namespace
}  // namespace tandem::language_model
