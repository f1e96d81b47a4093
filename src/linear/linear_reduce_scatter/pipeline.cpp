// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_reduce_scatter/state.hpp"

namespace tandem {

void LinearReduceScatter::State::pipeline(const PartialSums::Operands& run, StreamRef stream) {
  sums.multiply_overlapped(run, groups, stream, communication);
  sums.reduce(run, stream);
  communication.rejoin(stream);
}

}  // namespace tandem
