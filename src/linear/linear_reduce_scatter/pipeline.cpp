// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_reduce_scatter/state.hpp"

namespace tandem {

void LinearReduceScatter::State::pipeline(const PartialSums::Operands& run, StreamRef stream) {
  if (sums.product_adds()) {
    sums.take_slot(stream);
    for (const ShardGroup& group : groups) sums.multiply_peers(run, group.front(), stream, communication);
    for (const ShardGroup& group : groups) sums.multiply_adding(run, group.front(), stream);
  } else {
    sums.multiply_overlapped(run, groups, stream, communication);
    sums.reduce(run, stream);
  }
  communication.rejoin(stream);
}

}  // namespace tandem
