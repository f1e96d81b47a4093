// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_reduce_scatter/state.hpp"

namespace tandem {

void LinearReduceScatter::State::alone(const PartialSums::Operands& run, StreamRef stream) {
  sums.multiply_alone(run, stream);
}

}  // namespace tandem
