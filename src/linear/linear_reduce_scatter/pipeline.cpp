// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_reduce_scatter/state.hpp"

namespace tandem {

void LinearReduceScatter::State::pipeline(const PartialSums::Operands& run, StreamRef stream) {
  if (sums.product_adds()) {
    sums.take_slot(stream);
    for (std::uint32_t round = 0; round < sums.rounds(); ++round) {
      sums.multiply_peers(run, round, stream, communication);
    }
    for (std::uint32_t round = 0; round < sums.rounds(); ++round) sums.multiply_adding(run, round, stream);
  } else {
    sums.multiply_overlapped(run, groups, stream, communication);
    sums.reduce(run, stream);
  }
  communication.rejoin(stream);
}

}  // namespace tandem
