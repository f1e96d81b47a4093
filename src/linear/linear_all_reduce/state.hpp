// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/memory/symmetric_memory.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "linear/communication_streams.hpp"
#include "linear/linear_plan_state.hpp"
#include "linear/partial_sums.hpp"

namespace tandem {

/// The plan's state, and its algorithms, each defined in a file of its own in this folder. What is public does what the
/// plan's member of that name does, `run` what its operator() does.
class LinearAllReduce::State final : public LinearPlanState {
 public:
  State(const Team& team, const LinearSpec& spec, const LinearOptions& options);

  void run(const TensorView& x, const TensorView& weight, const TensorView& bias, const SymmetricTensor& y,
           StreamRef stream);
  /// `symmetric`: the memory of y on all ranks, or null for a plain view.
  void run(const TensorView& x, const TensorView& weight, const TensorView& bias, const TensorView& y,
           const SymmetricMemory* symmetric, StreamRef stream);

 private:
  using Algorithm = void (State::*)(const PartialSums::Operands& operands, StreamRef stream);

  /// In rounds of one part of every rank's rows: while one is multiplied, the partial sums of the previous one and the
  /// sums of the one before that are transferred. If product_adds: first the peer's rows of all rounds, then the own.
  void pipeline(const PartialSums::Operands& operands, StreamRef stream);
  /// In rounds, equal ones or not: while one is multiplied, the previous one's sums are transferred.
  void stepwise(const PartialSums::Operands& operands, StreamRef stream);
  /// Multiplies into the peers' memory, so that rows are transferred as they are computed.
  void direct(const PartialSums::Operands& operands, StreamRef stream);
  /// A team of one: the GEMM is the result.
  void alone(const PartialSums::Operands& operands, StreamRef stream);
  /// Multiplies once, then communicates.
  void sequence(const PartialSums::Operands& operands, StreamRef stream);

  /// Offers the round's sums to the peers, and copies theirs when they are offered, which is waited for on `waiting`.
  void exchange_sums(const PartialSums::Operands& operands, std::uint32_t round, StreamRef stream, StreamRef waiting);

  Algorithm algorithm_;
  PartialSums sums_;
  CommunicationStreams communication_;
};

}  // namespace tandem
