// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::stepwise(const PartialSums::Operands& run, StreamRef stream) {
  sums.take_slot(stream);
  for (const ShardPart& part : rounds) {
    sums.multiply_peers(run, part, stream, communication);
    if (sums.product_adds()) {
      sums.multiply_adding(run, part, stream);
    } else {
      sums.multiply_own(run, part, stream);
      sums.reduce(run, part, stream);
    }
    // Where the next products begin: beside them, a wait would keep a GPU's multiprocessor from those.
    exchange_sums(run, part, stream, stream);
  }
  if (sums.product_adds()) sums.keep_sums(run, stream);
  communication.rejoin(stream);
}

}  // namespace tandem
