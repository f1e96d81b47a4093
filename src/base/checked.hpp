// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "tandem/base/error.hpp"

namespace tandem {

/// a · b for sizes. Throws InvalidArgument if the product does not fit.
[[nodiscard]] constexpr std::size_t checked_mul(std::size_t a, std::size_t b) {
  if (b != 0 && a > std::numeric_limits<std::size_t>::max() / b) {
    throw InvalidArgument("a size of " + std::to_string(a) + " x " + std::to_string(b) +
                          " bytes does not fit in 64 bits");
  }
  return a * b;
}

/// a + b for sizes. Throws InvalidArgument if the sum does not fit.
[[nodiscard]] constexpr std::size_t checked_add(std::size_t a, std::size_t b) {
  if (a > std::numeric_limits<std::size_t>::max() - b) {
    throw InvalidArgument("a size of " + std::to_string(a) + " + " + std::to_string(b) +
                          " bytes does not fit in 64 bits");
  }
  return a + b;
}

[[nodiscard]] constexpr std::size_t round_up(std::size_t a, std::size_t multiple) noexcept {
  return (a + multiple - 1) / multiple * multiple;
}
/// `round_up` of a size that a caller gave: throws InvalidArgument if the result does not fit.
[[nodiscard]] constexpr std::size_t checked_round_up(std::size_t a, std::size_t multiple) {
  return round_up(checked_add(a, multiple - 1) - (multiple - 1), multiple);
}

}  // namespace tandem
