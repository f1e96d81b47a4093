// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "tandem/collective/shard.hpp"

#include "base/format.hpp"

namespace tandem {

/// How a run's tensor is split over the ranks, by rows of its first dimension (a 0-dim tensor is one row).
struct Split {
  std::int64_t total = 0;  ///< elements over all ranks
  std::int64_t full = 0;   ///< elements of a full shard; the last ones may have fewer

  /// Begin and count in elements.
  [[nodiscard]] Shard shard(int rank) const noexcept {
    const std::int64_t begin = std::min(total, full * rank);
    return {begin, std::min(full, total - begin)};
  }
  /// "10 elements, 3 a rank".
  [[nodiscard]] std::string in_words() const { return format("{} elements, {} a rank", total, full); }
};

}  // namespace tandem
