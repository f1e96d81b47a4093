// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "support/oracle.hpp"
#include "support/ranks.hpp"

namespace tandem::testing {

/// A sequence of random numbers that all ranks draw alike.
class Draws {
 public:
  explicit Draws(std::uint64_t sequence) : key_(key(seed(), {sequence})) {}
  /// In [0, limit).
  [[nodiscard]] std::uint64_t below(std::uint64_t limit) noexcept { return random_bits(key_, index_++) % limit; }

 private:
  std::uint64_t key_;
  std::uint64_t index_ = 0;
};

}  // namespace tandem::testing
