// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tandem/collective/shard.hpp"

namespace tandem {

/// Bytes: chunks that begin at multiples of it are aligned for vector accesses.
inline constexpr std::size_t chunk_multiple = 256;

/// Which of `total` elements a rank sums, or passes on, if all ranks do so at once: shard_of, but with shards rounded
/// up to multiples of `chunk_multiple` bytes.
[[nodiscard]] constexpr Shard chunk_of(std::int64_t total, std::size_t element_bytes, int ranks, int rank) noexcept {
  const auto unit = static_cast<std::int64_t>(chunk_multiple / element_bytes);
  const Shard units = shard_of((total + unit - 1) / unit, ranks, rank);
  const std::int64_t begin = std::min(total, units.begin * unit);
  return {begin, std::min(total, (units.begin + units.count) * unit) - begin};
}

}  // namespace tandem
