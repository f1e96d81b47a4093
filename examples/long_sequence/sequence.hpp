// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tandem/attention/context_parallel_attention.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

namespace tandem::long_sequence {

/// Tokens of the rank that has most. Collectives gather as many of every rank: their shards are of one length.
[[nodiscard]] std::int64_t most_tokens(const ContextParallelSpec& spec, int ranks);

/// Pairs of a query and a key that it sees.
[[nodiscard]] std::int64_t visible_pairs(std::int64_t queries, std::int64_t keys, const AttentionBand& band);

/// What one rank has of a sequence that a team shares: random q, k, v and gradient of out, and their attention.
class Sequence {
 public:
  /// Of a rank's tokens; `padded` is longer, if another rank has more.
  struct Tokens {
    TensorView own;
    TensorView padded;
  };

  Sequence(const Team& team, const ContextParallelSpec& spec);

  void forward(ContextParallelAttention& attention, StreamRef stream) const;
  void backward(ContextParallelAttention& attention, StreamRef stream) const;

  [[nodiscard]] const Team& team() const noexcept { return team_; }
  [[nodiscard]] const ContextParallelSpec& spec() const noexcept { return spec_; }
  [[nodiscard]] const Tokens& q() const noexcept { return q_; }
  [[nodiscard]] const Tokens& k() const noexcept { return k_; }
  [[nodiscard]] const Tokens& v() const noexcept { return v_; }
  [[nodiscard]] const Tokens& grad_out() const noexcept { return grad_out_; }
  // The results.
  [[nodiscard]] const TensorView& out() const noexcept { return out_; }
  [[nodiscard]] const TensorView& lse() const noexcept { return lse_; }
  [[nodiscard]] const TensorView& dq() const noexcept { return dq_; }
  [[nodiscard]] const TensorView& dk() const noexcept { return dk_; }
  [[nodiscard]] const TensorView& dv() const noexcept { return dv_; }

 private:
  [[nodiscard]] TensorView tensor(const Dims& sizes, DType dtype);

  Team team_;
  ContextParallelSpec spec_;
  std::vector<Buffer> buffers_;
  Tokens q_, k_, v_, grad_out_;
  TensorView out_, lse_, dq_, dk_, dv_;
};

}  // namespace tandem::long_sequence
