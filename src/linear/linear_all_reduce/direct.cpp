// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::direct(const PartialSums::Operands& operands, StreamRef stream) {
  sums_.multiply_direct(operands, stream, communication_);
  sums_.reduce(operands, stream);
  communication_.rejoin(stream);
  sums_.spread_sums(operands, stream);
}

}  // namespace tandem
