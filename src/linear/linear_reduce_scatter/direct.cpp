// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_reduce_scatter/state.hpp"

namespace tandem {

void LinearReduceScatter::State::direct(const PartialSums::Operands& run, StreamRef stream) {
  sums.multiply_direct(run, stream, communication);
  sums.reduce(run, stream);
  communication.rejoin(stream);
}

}  // namespace tandem
