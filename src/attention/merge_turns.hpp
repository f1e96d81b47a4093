// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tandem/base/export.hpp"
#include "tandem/collective/shard.hpp"

namespace tandem {

/// A range of tokens into which a part is merged at once: what is there before is the rounded result of the parts that
/// were stored first, or a sum in f32; what is there after is a sum, or the rounded result.
struct MergeTurn {
  Shard range;
  bool first;  ///< nothing was merged into these tokens before
  bool last;   ///< nothing will be

  friend bool operator==(const MergeTurn&, const MergeTurn&) = default;
};

/// The turns in which parts of these ranges of `tokens` are merged, one after the other: for each part in as few turns
/// as possible. So most memory is touched only as often as needed.
[[nodiscard]] TANDEM_API std::vector<std::vector<MergeTurn>> merge_turns(std::int64_t tokens,
                                                                         const std::vector<Shard>& parts);

}  // namespace tandem
