// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace tandem::language_model {

/// Random numbers by position, not by sequence: any rank can generate any other's. 64 bits (SplitMix64).
[[nodiscard]] constexpr std::uint64_t random_bits(std::uint64_t key, std::uint64_t place) noexcept {
  std::uint64_t x = key + (place + 1) * 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// In [0, 1).
[[nodiscard]] constexpr double random_uniform(std::uint64_t key, std::uint64_t place) noexcept {
  return static_cast<double>(random_bits(key, place) >> 11) * 0x1p-53;
}

/// Normally distributed, with mean 0 and standard deviation 1 (Box-Muller).
[[nodiscard]] inline double random_normal(std::uint64_t key, std::uint64_t place) {
  const double radius = std::sqrt(-2 * std::log(1 - random_uniform(key, 2 * place)));
  return radius * std::cos(2 * std::numbers::pi * random_uniform(key, 2 * place + 1));
}

}  // namespace tandem::language_model
