// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tandem/linear/all_gather_linear.hpp"

#include "linear/all_gather_linear/scale_gather.hpp"
#include "linear/communication_streams.hpp"
#include "linear/linear_plan_state.hpp"
#include "linear/product_turns.hpp"
#include "linear/shard_gather.hpp"

namespace tandem {

/// The plan's state, and its algorithms, each defined in a file of its own in this folder. What is public does what the
/// plan's member of that name does, `run` what its operator() does.
class AllGatherLinear::State final : public LinearPlanState {
 public:
  State(const Team& team, const LinearSpec& spec, const LinearOptions& options);

  void run(const LinearOperands& given, StreamRef stream);
  [[nodiscard]] TensorView gathered() const;

 private:
  struct Operands {
    const void* x;  ///< this rank's shard
    const void* weight;
    const void* bias;
    const float* x_scale;  ///< this rank's; null without scaling
    const float* weight_scale;
    std::byte* aux;  ///< null without one
    std::byte* y;
    std::int64_t m;
  };
  using Algorithm = void (State::*)(const Operands& operands, StreamRef stream);

  /// Multiplies while shards arrive.
  void pipeline(const Operands& operands, StreamRef stream);
  /// Gathers, then multiplies once.
  void sequence(const Operands& operands, StreamRef stream);

  /// Computes `rows` of y; `x` and `scale` point at these rows of x and at their scales.
  void multiply(const ProductTurns::Turn& turn, const Operands& operands, const void* x, const float* scale,
                Shard rows);
  /// Computes the rows of a group: a GEMM for each contiguous range of rows or, if x is transposed, for each shard,
  /// which is a separate block.
  void multiply_gathered(const ProductTurns::Turn& turn, const Operands& operands, const ShardGroup& group);

  bool keep_gathered_;
  Algorithm algorithm_;
  ShardGather gather_;
  ScaleGather scales_;
  ProductTurns products_;
  CommunicationStreams communication_;
  std::int64_t kept_m_ = -1;  ///< rows of the last run, whose gathered x is kept; -1: none
  int owed_slot_ = -1;        ///< an earlier run's, granted to the peers by the next run only; -1: none
  bool opens_ = false;        ///< this run begins with an exchange with all ranks
};

}  // namespace tandem
