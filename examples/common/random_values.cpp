// SPDX-License-Identifier: Apache-2.0
#include "common/random_values.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/base/scalar.hpp"

namespace tandem::examples {
namespace {

// After so many, values repeat. A prime, so that no two rows of a tensor are equal: a check sees which is where.
constexpr std::int64_t most_different = (std::int64_t{1} << 22) - 3;

template <typename T> void fill_as(Device& device, const TensorView& view, const std::vector<float>& values) {
  std::vector<T> stored;
  for (const float value : values) stored.push_back(T(value));
  const auto count = static_cast<std::int64_t>(stored.size());
  auto* const to = view.data_as<T>();
  for (std::int64_t at = 0; at < view.numel(); at += count) {
    device.upload(to + at, stored.data(), static_cast<std::size_t>(std::min(count, view.numel() - at)) * sizeof(T));
  }
}

}  // namespace

void fill_randomly(Device& device, const TensorView& view, unsigned seed, float deviation) {
  std::minstd_rand random(seed + 1);
  std::normal_distribution<float> value(0, deviation);
  std::vector<float> values(static_cast<std::size_t>(std::min(view.numel(), most_different)));
  for (float& each : values) each = value(random);
  switch (view.dtype()) {
    case DType::f32: return fill_as<float>(device, view, values);
    case DType::f16: return fill_as<Half>(device, view, values);
    case DType::bf16: return fill_as<BFloat16>(device, view, values);
    default: throw InvalidArgument("random values of f32, f16 or bf16 only");
  }
}

}  // namespace tandem::examples
