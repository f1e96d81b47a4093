// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::stepwise(const PartialSums::Operands& run, StreamRef stream) {
  sums.take_slot(stream);
  for (std::uint32_t round = 0; round < sums.rounds(); ++round) {
    sums.multiply_peers(run, round, stream, communication);
    if (sums.product_adds()) {
      sums.multiply_adding(run, round, stream);
    } else {
      sums.multiply_own(run, round, stream);
      sums.reduce(run, round, stream);
    }
    // Waits before the next GEMMs, not concurrently: on a GPU a waiting kernel would occupy an SM that they could use.
    exchange_sums(run, round, stream, stream);
  }
  if (sums.product_adds()) sums.keep_sums(run, stream);
  communication.rejoin(stream);
}

}  // namespace tandem
