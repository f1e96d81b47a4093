// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tandem/device/stream.hpp"
#include "tandem/linear/cost_model.hpp"
#include "tandem/linear/linear_spec.hpp"

#include "support/guarded_tensor.hpp"
#include "support/oracle.hpp"
#include "support/ranks.hpp"

namespace tandem::testing {

/// A random [rows, columns] matrix that every rank can compute.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values;

  static Matrix random(std::uint64_t key, std::int64_t rows, std::int64_t columns, DType dtype) {
    return {rows, columns, random_values(key, rows * columns, dtype)};
  }
  [[nodiscard]] Matrix part(Shard range) const {
    const auto first = values.begin() + range.begin * columns;
    return {range.count, columns, std::vector<double>(first, first + range.count * columns)};
  }
  [[nodiscard]] Matrix transposed() const { return {columns, rows, testing::transposed(values, rows, columns)}; }
  /// Copies it to the device, stored as `layout` says.
  [[nodiscard]] GuardedTensor on(const std::shared_ptr<Device>& device, DType dtype, Layout layout = Layout::normal,
                                 std::int64_t offset = 0) const {
    const Matrix stored = layout == Layout::normal ? *this : transposed();
    return GuardedTensor(device, {stored.rows, stored.columns}, dtype, stored.values, offset);
  }
};

/// Concatenates along the columns: [rows, Σ columns].
[[nodiscard]] inline Matrix joined(std::span<const Matrix> parts) {
  Matrix all{parts.front().rows, 0, {}};
  for (const Matrix& part : parts) all.columns += part.columns;
  for (std::int64_t row = 0; row < all.rows; ++row) {
    for (const Matrix& part : parts) {
      const auto first = part.values.begin() + row * part.columns;
      all.values.insert(all.values.end(), first, first + part.columns);
    }
  }
  return all;
}

/// The dtypes that the gradient of a layer's weight may have.
[[nodiscard]] inline std::vector<DType> gradient_dtypes(DType dtype) {
  return dtype == f32 ? std::vector{f32} : std::vector{f32, dtype};
}

/// Calls `check(algorithm, x's layout, the weight's, dtype)` for all combinations of this kind of plan.
template <typename Check> void for_each_layout(LinearKind kind, const Check& check) {
  for (const std::string& algorithm : linear_algorithms(kind)) {
    for (const Layout x : {Layout::normal, Layout::transposed}) {
      for (const Layout weight : {Layout::normal, Layout::transposed}) {
        for (const DType dtype : {f32, bf16, f16}) check(algorithm, x, weight, dtype);
      }
    }
  }
}

/// for_each_layout with a bias, then also with `activation`, alpha and `beta`: calls `check(spec, options)`.
template <typename Check>
void for_each_epilogue(LinearKind kind, Activation activation, float beta, const Check& check) {
  for_each_layout(kind, [&](const std::string& algorithm, Layout x, Layout weight, DType dtype) {
    LinearSpec spec{.m = 50, .n = 17, .k = 33, .dtype = dtype, .x_layout = x, .weight_layout = weight, .bias = true};
    check(spec, LinearOptions{.algorithm = algorithm});
    spec.m = 23;
    spec.n = 40;
    spec.k = 16;
    spec.activation = activation;
    spec.alpha = 0.5F;
    spec.beta = beta;
    check(spec, LinearOptions{.algorithm = algorithm});
  });
}

/// Delays this rank's stream by up to 2 ms, in one of `seldom` calls with random bits.
inline void maybe_delay(const Stream& stream, std::uint64_t bits, std::uint64_t seldom = 4) {
  if (bits % seldom != 0) return;
  const auto delay = std::chrono::microseconds((bits >> 8) % 2'000);
  stream.device().launch(stream, [delay] { std::this_thread::sleep_for(delay); });
}

}  // namespace tandem::testing
