// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::sequence(const PartialSums::Operands& run, StreamRef stream) {
  sums.in_sequence(run, stream);
  if (!sums.takes_kernels()) sums.spread_sums(run, stream);
}

}  // namespace tandem
