// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/memory/symmetric_memory.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "linear/row_parallel/state.hpp"

namespace tandem {

/// The plan's state, and its algorithms, each defined in a file of its own, here or with those of all row-parallel
/// layers. What is public does what the plan's member of that name does, `run` what its operator() does.
class LinearAllReduce::State final : public RowParallelState {
 public:
  State(const Team& team, const LinearSpec& spec, const LinearOptions& options);

  void run(LinearOperands given, const SymmetricTensor& y, StreamRef stream);
  /// `symmetric`: the memory of y on all ranks, or null for a plain view.
  void run(const LinearOperands& given, StreamRef stream, const SymmetricMemory* symmetric = nullptr);

 private:
  using Algorithm = void (State::*)(const RowParallelOperands& operands, StreamRef stream);

  /// In rounds of one part of every rank's rows: while one is multiplied, the partial sums of the previous one and the
  /// sums of the one before that are transferred. If the product adds: first the peer's rows of all rounds, then the
  /// own.
  void pipeline(const RowParallelOperands& operands, StreamRef stream);
  /// In rounds, equal ones or not: while one is multiplied, the previous one's sums are transferred.
  void stepwise(const RowParallelOperands& operands, StreamRef stream);

  /// Offers the round's sums to the peers, and copies theirs when they are offered, which is waited for on `waiting`.
  void exchange_sums(const RowParallelOperands& operands, std::uint32_t round, StreamRef stream, StreamRef waiting);

  Algorithm algorithm_;
};

}  // namespace tandem
