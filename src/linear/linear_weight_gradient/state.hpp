// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tandem/linear/linear_weight_gradient.hpp"

#include "collective/side_stream.hpp"
#include "linear/linear_plan_state.hpp"
#include "linear/linear_weight_gradient/wide_sum.hpp"
#include "linear/shard_gather.hpp"
#include "team/reclaimed.hpp"

namespace tandem {

/// The plan's state, and its algorithms, each defined in a file of its own in this folder. What is public does what the
/// plan's member of that name does, `run` what its operator() does.
class LinearWeightGradient::State final : public LinearPlanState {
 public:
  State(const Team& team, const LinearSpec& spec, GatheredOperand gathered, const LinearOptions& options);

  void start(const TensorView& shard, std::int64_t m, StreamRef stream);
  void run(const TensorView& dy, const TensorView& x, const TensorView& dw, StreamRef stream);

 private:
  struct Operands {
    const std::byte* shard;  ///< this rank's rows of the gathered operand
    const std::byte* whole;  ///< all rows of the other one
    Gemm* gemm;              ///< whose result has the dtype of `dw`
    void* dw;
    std::int64_t m;
  };
  struct Started {
    const std::byte* shard;
    std::int64_t m;
    std::uint64_t capture;  ///< the one it was in; 0: none
  };
  using Algorithm = void (State::*)(const Operands& operands, StreamRef stream);

  /// Accumulates while shards arrive: in dW, or in the wide sum.
  void pipeline(const Operands& operands, StreamRef stream);
  /// Gathers, then multiplies once.
  void sequence(const Operands& operands, StreamRef stream);

  /// Gathers concurrently with what is queued on `stream` next.
  void gather_early(const std::byte* shard, std::int64_t m, StreamRef stream);
  /// Completes the run that `start` began.
  void finish_started(const Operands& operands, StreamRef stream);
  /// Waits for all shards, and multiplies once.
  void multiply_gathered(const Operands& operands, StreamRef stream) const;

  /// dW = dyᵀ · x over these rows + beta · dW, where `gathered_rows` points at them in the gathered operand. If there
  /// are no rows, only beta applies.
  void multiply(StreamRef stream, const Operands& operands, const std::byte* gathered_rows, Shard rows,
                float beta) const;

  /// Throws unless this run is the one that was started.
  void expect_started(const TensorView& shard, std::int64_t m, StreamRef stream) const;
  /// Forgets a start in a capture that `stream` is not in: that capture was dropped, and the start with it.
  void forget_dropped_start(StreamRef stream) {
    if (started_ && started_->capture != 0 && started_->capture != capture_of(stream)) started_.reset();
  }

  GatheredOperand gathered_;
  Algorithm algorithm_;
  ShardGather gather_;
  Reclaimed<Gemm> gemm_;
  std::optional<WideSum> wide_;
  SideStream communication_;
  std::optional<Started> started_;  ///< by a start() since the last run
};

}  // namespace tandem
