// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::direct(const PartialSums::Operands& run, StreamRef stream) {
  sums.multiply_direct(run, stream, communication);
  sums.reduce(run, stream);
  communication.rejoin(stream);
  sums.spread_sums(run, stream);
}

}  // namespace tandem
