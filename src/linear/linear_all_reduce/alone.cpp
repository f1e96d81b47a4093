// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::alone(const PartialSums::Operands& run, StreamRef stream) {
  sums.multiply_alone(run, stream);
}

}  // namespace tandem
