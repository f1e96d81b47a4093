// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::sequence(const PartialSums::Operands& operands, StreamRef stream) {
  sums_.in_sequence(operands, stream);
  if (!sums_.takes_kernels()) sums_.spread_sums(operands, stream);
}

}  // namespace tandem
