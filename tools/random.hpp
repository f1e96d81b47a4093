// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iterator>

#include "support/oracle.hpp"

namespace tandem::tools {

/// Random draws that are identical on every rank: the n-th one depends only on the key and on n.
class Random {
 public:
  explicit Random(std::uint64_t key) noexcept : key_(key) {}

  [[nodiscard]] std::uint64_t bits() noexcept { return testing::random_bits(key_, draws_++); }
  /// From `least` to `most`, inclusive.
  [[nodiscard]] std::int64_t between(std::int64_t least, std::int64_t most) noexcept {
    return least + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(most - least + 1));
  }
  /// True with a probability of `percent` %.
  [[nodiscard]] bool chance(int percent) noexcept { return between(0, 99) < percent; }
  template <typename Range> [[nodiscard]] const auto& pick(const Range& range) noexcept {
    return std::data(range)[bits() % std::size(range)];
  }

 private:
  std::uint64_t key_;
  std::uint64_t draws_ = 0;
};

}  // namespace tandem::tools
