// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tandem/linear/linear_reduce_scatter.hpp"

#include "linear/groups.hpp"
#include "linear/row_parallel/state.hpp"

namespace tandem {

/// The plan's state, and its algorithms, each defined in a file of its own, here or with those of all row-parallel
/// layers. What is public does what the plan's member of that name does, `run` what its operator() does.
class LinearReduceScatter::State final : public RowParallelState {
 public:
  State(const Team& team, const LinearSpec& spec, const LinearOptions& options);

  void run(const LinearOperands& given, StreamRef stream);

 private:
  using Algorithm = void (State::*)(const RowParallelOperands& operands, StreamRef stream);

  /// Pushes rows while the next ones are multiplied.
  void pipeline(const RowParallelOperands& operands, StreamRef stream);

  std::vector<ShardGroup> groups_;
  Algorithm algorithm_;
};

}  // namespace tandem
