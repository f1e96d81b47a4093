// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tandem/base/dtype.hpp"

namespace tandem::language_model {

using Numbers = std::vector<double>;

/// The bound on a result's error, in standard deviations. (One in millions of independent normal errors exceeds five.)
constexpr double deviations = 8;

inline double squared(double x) noexcept { return x * x; }

/// Values, and the variances of their errors.
struct Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  Numbers value;
  Numbers variance;

  Matrix() = default;
  Matrix(std::size_t r, std::size_t c) : rows(r), columns(c), value(r * c, 0.0), variance(r * c, 0.0) {}
  Matrix(std::size_t r, std::size_t c, std::span<const float> exact) : Matrix(r, c) {
    std::copy(exact.begin(), exact.end(), value.begin());
  }
};

[[nodiscard]] Matrix transposed(const Matrix& a);

/// fp64 arithmetic that models the rounding of the model's arithmetic, in one of two ways.
///
/// Counting: values stay exact, and each carries the variance of its error, as if all errors were independent.
/// Sampling: each value is moved by one standard deviation of its own rounding, up or down at random, and carries no
/// variance; the final values then show all the correlations that counting leaves out.
class Arithmetic {
 public:
  [[nodiscard]] static Arithmetic counting(DType dtype) { return Arithmetic(dtype, std::nullopt); }
  /// Another `key` gives other random signs.
  [[nodiscard]] static Arithmetic sampling(DType dtype, std::uint64_t key) { return Arithmetic(dtype, key); }

  /// a · b, rounded to the model's dtype or (for gradients of weights, which are sums over tokens) to f32.
  enum class Out : bool { narrow, f32 };
  [[nodiscard]] Matrix product(const Matrix& a, const Matrix& b, Out out = Out::narrow);
  [[nodiscard]] Matrix sum(const Matrix& a, const Matrix& b);
  /// Adds a vector to each row.
  void add_bias(Matrix& a, std::span<const float> bias);
  /// The sum of each column.
  [[nodiscard]] Matrix column_sums(const Matrix& a);

  /// Rounds `a` to the model's dtype. On entry its variances are those of what was computed so far.
  void store(Matrix& a);
  /// `store` for values kept in f32, whose own rounding is already in the variances.
  void settle(Matrix& a);

  /// An error shared by many values, such as that of a row's scale: the shift that they all get, and the variance that
  /// remains for them to carry.
  struct Shared {
    double moved = 0;
    double variance = 0;
  };
  [[nodiscard]] Shared shared(double variance);

  /// The errors of different tokens may be fully correlated: then a sum over tokens drifts by the sum of one standard
  /// deviation of each of its terms.
  [[nodiscard]] static double drift_variance(double drift) noexcept { return squared(drift / deviations); }
  /// Variance of the rounding of one fp32 operation, relative to the square of its result.
  [[nodiscard]] double rounding() const noexcept { return rounding_; }

 private:
  Arithmetic(DType dtype, std::optional<std::uint64_t> key);
  /// +1 or -1, at random.
  double coin();

  double rounding_;
  double stored_;
  std::optional<std::uint64_t> key_;
  std::uint64_t tossed_ = 0;
};

}  // namespace tandem::language_model
