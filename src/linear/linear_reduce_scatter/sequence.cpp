// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_reduce_scatter/state.hpp"

namespace tandem {

void LinearReduceScatter::State::sequence(const PartialSums::Operands& run, StreamRef stream) {
  sums.in_sequence(run, stream);
}

}  // namespace tandem
