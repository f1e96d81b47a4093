// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::stepwise(const PartialSums::Operands& operands, StreamRef stream) {
  sums_.take_slot(stream);
  for (std::uint32_t round = 0; round < sums_.rounds(); ++round) {
    sums_.multiply_peers(operands, round, stream, communication_);
    if (sums_.product_adds()) {
      sums_.multiply_adding(operands, round, stream);
    } else {
      sums_.multiply_own(operands, round, stream);
      sums_.reduce(operands, round, stream);
    }
    // Waits before the next GEMMs, not concurrently: on a GPU a waiting kernel would occupy an SM that they could use.
    exchange_sums(operands, round, stream, stream);
  }
  if (sums_.product_adds()) sums_.keep_sums(operands, stream);
  communication_.rejoin(stream);
}

}  // namespace tandem
