// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_reduce_scatter/state.hpp"

namespace tandem {

void LinearReduceScatter::State::direct(const PartialSums::Operands& operands, StreamRef stream) {
  sums_.multiply_direct(operands, stream, communication_);
  sums_.reduce(operands, stream);
  communication_.rejoin(stream);
}

}  // namespace tandem
