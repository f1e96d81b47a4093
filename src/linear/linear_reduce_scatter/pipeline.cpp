// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_reduce_scatter/state.hpp"

namespace tandem {

void LinearReduceScatter::State::pipeline(const PartialSums::Operands& run, StreamRef stream) {
  if (sums.product_adds()) {
    sums.multiply_sent(run, stream, communication);
    for (const ShardPart& part : sums.adding_parts()) sums.multiply_adding(run, part, stream);
  } else {
    sums.multiply_overlapped(run, groups, stream, communication);
    sums.reduce(run, stream);
  }
  communication.rejoin(stream);
}

}  // namespace tandem
