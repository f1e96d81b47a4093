// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/base/tensor_view.hpp"
#include "tandem/collective/shard.hpp"
#include "tandem/device/attention.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/device/stream.hpp"

#include "long_sequence/collectives.hpp"
#include "long_sequence/sequence.hpp"

namespace tandem::long_sequence {

/// The least computation of one rank: its queries' local attentions to the gathered keys of each rank, whose results
/// nothing merges.
class LocalBlocks {
 public:
  /// Whether its blocks are known: for a causal mask, or none. A window would need many more forms of them.
  [[nodiscard]] static bool know(const AttentionBand& band) noexcept;

  LocalBlocks(const Sequence& mine, const Collectives& gathered);

  /// Of all blocks.
  [[nodiscard]] std::int64_t pairs() const;
  void forward(StreamRef stream) const;
  /// Behind a `forward`: reads what that returned last.
  void backward(StreamRef stream) const;

 private:
  struct Block {
    Shard queries;  ///< among this rank's tokens
    Shard keys;     ///< among all that are gathered
    std::shared_ptr<Attention> attention;
  };
  void add(const Shard& queries, const Shard& keys, const AttentionBand& band);
  [[nodiscard]] TensorView scratch(const TensorView& like);

  const Sequence& mine_;
  const Collectives& gathered_;
  std::vector<Block> blocks_;
  std::vector<Buffer> buffers_;
  TensorView out_, lse_, dq_, dk_, dv_;  ///< of one block after the other
};

}  // namespace tandem::long_sequence
