// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tandem/linear/linear_reduce_scatter.hpp"

#include "linear/communication_streams.hpp"
#include "linear/groups.hpp"
#include "linear/linear_plan_state.hpp"
#include "linear/partial_sums.hpp"

namespace tandem {

/// The plan's state, and its algorithms, each defined in a file of its own in this folder. What is public does what the
/// plan's member of that name does, `run` what its operator() does.
class LinearReduceScatter::State final : public LinearPlanState {
 public:
  State(const Team& team, const LinearSpec& spec, const LinearOptions& options);

  void run(const TensorView& x, const TensorView& weight, const TensorView& bias, const TensorView& y,
           StreamRef stream);

 private:
  using Algorithm = void (State::*)(const PartialSums::Operands& operands, StreamRef stream);

  /// Pushes rows while the next ones are multiplied.
  void pipeline(const PartialSums::Operands& operands, StreamRef stream);
  /// Multiplies into the peers' memory, so that rows are transferred as they are computed.
  void direct(const PartialSums::Operands& operands, StreamRef stream);
  /// A team of one: the GEMM is the result.
  void alone(const PartialSums::Operands& operands, StreamRef stream);
  /// Multiplies once, then communicates.
  void sequence(const PartialSums::Operands& operands, StreamRef stream);

  std::vector<ShardGroup> groups_;
  Algorithm algorithm_;
  PartialSums sums_;
  CommunicationStreams communication_;
};

}  // namespace tandem
