// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::pipeline(const PartialSums::Operands& run, StreamRef stream) {
  sums.multiply_overlapped(run, groups, stream, communication);
  sums.reduce(run, stream);
  communication.rejoin(stream);
}

}  // namespace tandem
