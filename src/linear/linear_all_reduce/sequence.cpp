// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::sequence(const PartialSums::Operands& run, StreamRef stream) {
  sums.multiply_first(run, stream);
  sums.reduce(run, stream);
}

}  // namespace tandem
