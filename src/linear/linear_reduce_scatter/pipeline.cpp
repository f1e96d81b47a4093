// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_reduce_scatter/state.hpp"

namespace tandem {

void LinearReduceScatter::State::pipeline(const PartialSums::Operands& operands, StreamRef stream) {
  if (sums_.product_adds()) {
    sums_.take_slot(stream);
    for (std::uint32_t round = 0; round < sums_.rounds(); ++round) {
      sums_.multiply_peers(operands, round, stream, communication_);
    }
    for (std::uint32_t round = 0; round < sums_.rounds(); ++round) sums_.multiply_adding(operands, round, stream);
    communication_.rejoin(stream);
    return;
  }
  sums_.multiply_overlapped(operands, groups_, stream, communication_);
  if (capturing()) {
    // The wait is over when the last GEMM is, if it is no successor of that; eager, a second stream to wait for costs
    // more than it gains (docs/linear_schedules.md). Behind the pushes: none may queue behind it.
    communication_.gather_on_last();
    sums_.wait_for_parts(0, communication_.last().ref());
    communication_.rejoin(stream);
    sums_.add_parts(operands, 0, stream);
  } else {
    sums_.reduce(operands, stream);
    communication_.rejoin(stream);
  }
}

}  // namespace tandem
