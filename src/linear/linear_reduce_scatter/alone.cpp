// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_reduce_scatter/state.hpp"

namespace tandem {

void LinearReduceScatter::State::alone(const PartialSums::Operands& operands, StreamRef stream) {
  sums_.multiply_alone(operands, stream);
}

}  // namespace tandem
