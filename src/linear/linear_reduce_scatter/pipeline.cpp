// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_reduce_scatter/state.hpp"

namespace tandem {

void LinearReduceScatter::State::pipeline(const RowParallelOperands& operands, StreamRef stream) {
  if (product().adds()) {
    sums().take_slot(stream);
    for (std::uint32_t round = 0; round < sums().rounds(); ++round) {
      sums().multiply_peers(operands, round, stream, communication());
    }
    for (std::uint32_t round = 0; round < sums().rounds(); ++round) sums().multiply_adding(operands, round, stream);
    communication().rejoin(stream);
    return;
  }
  sums().multiply_overlapped(operands, groups_, stream, communication());
  if (capturing()) {
    // The wait is over when the last GEMM is, if it is no successor of that; eager, a second stream to wait for costs
    // more than it gains (docs/linear_schedules.md). Behind the pushes: none may queue behind it.
    communication().gather_on_last();
    sums().wait_for_parts(0, communication().last().ref());
    communication().rejoin(stream);
    sums().add_parts(operands, 0, stream);
  } else {
    sums().reduce(operands, 0, stream);
    communication().rejoin(stream);
  }
}

}  // namespace tandem
