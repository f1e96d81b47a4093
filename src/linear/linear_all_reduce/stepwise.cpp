// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::stepwise(const RowParallelOperands& operands, StreamRef stream) {
  sums().take_slot(stream);
  for (std::uint32_t round = 0; round < sums().rounds(); ++round) {
    sums().multiply_peers(operands, round, stream, communication());
    if (product().adds()) {
      sums().multiply_adding(operands, round, stream);
    } else {
      sums().multiply_own(operands, round, stream);
      sums().reduce(operands, round, stream);
    }
    // Waits before the next GEMMs, not concurrently: on a GPU a waiting kernel would occupy an SM that they could use.
    exchange_sums(operands, round, stream, stream);
  }
  if (product().adds()) sums().keep_sums(operands, stream);
  communication().rejoin(stream);
}

}  // namespace tandem
