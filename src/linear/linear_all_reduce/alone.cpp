// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::alone(const PartialSums::Operands& operands, StreamRef stream) {
  sums_.multiply_alone(operands, stream);
}

}  // namespace tandem
