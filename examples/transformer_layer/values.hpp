// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "language_model/random.hpp"

namespace tandem::transformer_layer {

/// The key of a tensor's values. Tensors are numbered: 3 · part + 0 for x, 1 for the weight, 2 for dy.
[[nodiscard]] constexpr std::uint64_t key_of(std::uint64_t seed, std::uint64_t tensor) noexcept {
  return language_model::random_bits(seed, tensor);
}

/// Element `place` (row · columns + column) of a key's tensor, in [-1, 1): 17 random bits, truncated to the 8
/// significant bits of bf16. So f32, f16 and bf16 all represent it exactly, while sums of products need rounding. Any
/// rank, and a program in any other language, can generate the same tensor from the same seed:
/// benchmarks/transformer_layer/values.py does so in Python.
[[nodiscard]] constexpr float value_at(std::uint64_t key, std::uint64_t place) noexcept {
  const auto drawn = static_cast<std::int32_t>(language_model::random_bits(key, place) >> 47) - (1 << 16);
  const float value = static_cast<float>(drawn) * 0x1p-16F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffff0000U);
}

}  // namespace tandem::transformer_layer
