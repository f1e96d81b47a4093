// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "tandem/base/dims.hpp"

namespace tandem {

/// A rank's share of a range: [begin, begin + count).
struct Shard {
  std::int64_t begin = 0;
  std::int64_t count = 0;

  friend bool operator==(const Shard&, const Shard&) = default;
};

/// How `total` items are split over `ranks`: ceil(total / ranks) each, in rank order; the last ranks have fewer or
/// none. Empty for the size and rank of an empty team.
[[nodiscard]] constexpr Shard shard_of(std::int64_t total, int ranks, int rank) noexcept {
  if (ranks < 1) return {};
  const std::int64_t full = total / ranks + (total % ranks != 0 ? 1 : 0);
  const std::int64_t begin = std::min(total, full * rank);
  return {begin, std::min(full, total - begin)};
}

/// Elements of the largest shard of a tensor of these sizes, split along its first dimension; 1 for a 0-dim tensor,
/// which is not split.
[[nodiscard]] inline std::int64_t longest_shard(const Dims& sizes, int ranks) noexcept {
  if (sizes.size() == 0) return 1;
  const std::int64_t rows = sizes[0];
  const std::int64_t longest = shard_of(rows, ranks, 0).count;
  if (rows == 0 || sizes.size() == 1) return longest;
  return longest * (sizes.numel() / rows);
}

}  // namespace tandem
