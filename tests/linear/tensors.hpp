// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tandem/device/device.hpp"
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

/// Random scales for `count` rows: one for each, one for all, or none.
[[nodiscard]] inline Matrix random_scales(std::uint64_t key, Scaling scaling, std::int64_t count) {
  Matrix scales{1, scaling == Scaling::none ? 0 : scaling == Scaling::per_tensor ? 1 : count, {}};
  for (std::int64_t i = 0; i < scales.columns; ++i) {
    const auto bits = random_bits(key, static_cast<std::uint64_t>(i));
    scales.values.push_back(static_cast<double>(bits % 1000 + 1) / 256);
  }
  return scales;
}

/// `matrix` with each row times its scale.
[[nodiscard]] inline Matrix scaled(Matrix matrix, const Matrix& scales) {
  if (scales.columns == 0) return matrix;
  for (std::size_t i = 0; i < matrix.values.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / matrix.columns;
    matrix.values[i] *= scales.values[scales.columns == 1 ? 0 : static_cast<std::size_t>(row)];
  }
  return matrix;
}

/// Scales in the device's memory.
[[nodiscard]] inline GuardedTensor scales_on(const std::shared_ptr<Device>& device, const Matrix& scales,
                                             std::int64_t offset = 0) {
  return GuardedTensor(device, {scales.columns}, f32, scales.values, offset);
}

/// What to pass where a spec has no scaling.
[[nodiscard]] inline TensorView view_if(bool given, const GuardedTensor& tensor) {
  return given ? tensor.view() : TensorView();
}

/// Product::summed_within
[[nodiscard]] inline double summed_within(const LinearSpec& spec, const Device& device) {
  const bool on_gpu = device.id().type == DeviceType::cuda;
  return on_gpu && is_float8(spec.dtype) ? float8_error(spec.k, spec.fast_accum) : 0;
}

/// Calls `check(spec)` for layers of 8-bit floats: all pairs of dtypes with every scaling, and all results, in sizes
/// that a GPU's library takes; then in other sizes, in other layouts, and with what a layer adds.
template <typename Check> void for_each_float8(const Check& check) {
  for (const DType x : {f8e4m3, f8e5m2}) {
    for (const DType weight : {f8e4m3, f8e5m2}) {
      for (const Scaling scaling : {Scaling::none, Scaling::per_tensor, Scaling::per_row}) {
        check(LinearSpec{.m = 70, .n = 32, .k = 48, .dtype = x, .weight_dtype = weight, .scaling = scaling});
      }
    }
  }
  for (const DType out : {f16, f32}) {
    check(LinearSpec{
        .m = 70, .n = 32, .k = 48, .dtype = f8e4m3, .out_dtype = out, .scaling = Scaling::per_tensor, .bias = true});
  }
  for (const Scaling scaling : {Scaling::per_tensor, Scaling::per_row}) {
    LinearSpec spec{.m = 37, .n = 48, .k = 64, .dtype = f8e4m3, .scaling = scaling, .fast_accum = true, .bias = true};
    spec.activation = Activation::gelu_tanh;
    spec.beta = 0.5F;
    check(spec);
    spec.fast_accum = false;
    spec.n = 21;
    spec.k = 53;
    for (const Layout layout : {Layout::normal, Layout::transposed}) {
      spec.x_layout = layout;
      spec.weight_layout = layout;
      check(spec);
    }
  }
}

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
