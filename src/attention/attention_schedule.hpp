// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tandem/attention/context_parallel_spec.hpp"
#include "tandem/base/export.hpp"
#include "tandem/collective/shard.hpp"
#include "tandem/device/attention.hpp"

namespace tandem {

/// Attention of a range of tokens to another one, as one local attention computes it. Both count from the first token
/// of what they are a range of; the band counts from the first ones of both.
struct AttentionBlock {
  Shard queries;
  Shard keys;
  AttentionBand band;

  friend bool operator==(const AttentionBlock&, const AttentionBlock&) = default;
};

/// What of two ranges of a sequence's tokens, `queries` and `keys`, has queries that see keys: in a band that says
/// which of the whole sequence they see. Counted from the beginning of both ranges. None if no query sees a key.
[[nodiscard]] TANDEM_API std::optional<AttentionBlock> visible_block(const Shard& queries, const Shard& keys,
                                                                     const AttentionBand& band);

/// The blocks of a rank's queries and another's (or its own) keys, among the tokens that each has: at most one for each
/// pair of ranges.
[[nodiscard]] TANDEM_API std::vector<AttentionBlock> visible_blocks(const std::vector<Shard>& queries,
                                                                    const std::vector<Shard>& keys,
                                                                    const AttentionBand& band);

/// The same blocks, but those that are all of a larger rectangle as one.
[[nodiscard]] TANDEM_API std::vector<AttentionBlock> joined(std::vector<AttentionBlock> blocks);

/// What one rank of a context-parallel attention does: attention to its own keys, then to those of each rank whose keys
/// it sees, which it fetches.
class TANDEM_API AttentionSchedule {
 public:
  /// A range of another rank's keys, in the order in which they are fetched: from the next rank, the one after it, and
  /// so on, so that no two ranks fetch from the same one at once.
  struct Fetch {
    int rank;
    int distance;                        ///< from this rank to that one, in the team's cyclic order
    Shard keys;                          ///< among those that the rank has
    std::vector<AttentionBlock> blocks;  ///< keys count from the first one that is fetched
  };
  /// What another rank fetches from this one, and returns the gradients of.
  struct Return {
    int rank;
    int distance;  ///< from that rank to this one
    Shard keys;    ///< among this rank's
  };

  AttentionSchedule(const ContextParallelSpec& spec, int ranks, int rank);

  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }  ///< this rank's
  [[nodiscard]] const std::vector<AttentionBlock>& own() const noexcept { return own_; }
  [[nodiscard]] const std::vector<Fetch>& fetches() const noexcept { return fetches_; }
  /// In ascending distance: the rank before this one fetches first.
  [[nodiscard]] const std::vector<Return>& returns() const noexcept { return returns_; }

 private:
  std::int64_t tokens_;
  std::vector<AttentionBlock> own_;
  std::vector<Fetch> fetches_;
  std::vector<Return> returns_;
};

}  // namespace tandem
