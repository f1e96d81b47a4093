// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_reduce_scatter/state.hpp"

namespace tandem {

void LinearReduceScatter::State::sequence(const PartialSums::Operands& operands, StreamRef stream) {
  sums_.in_sequence(operands, stream);
}

}  // namespace tandem
