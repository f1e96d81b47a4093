// SPDX-License-Identifier: Apache-2.0
#include "linear/row_parallel/state.hpp"

namespace tandem {

void RowParallelState::direct(const RowParallelOperands& operands, StreamRef stream) {
  sums_->multiply_direct(operands, stream, communication_);
  sums_->reduce(operands, 0, stream);
  communication_.rejoin(stream);
  if (spreads()) sums_->spread_sums(operands, stream);
}

}  // namespace tandem
