// SPDX-License-Identifier: Apache-2.0
#include "linear/row_parallel/state.hpp"

namespace tandem {

void RowParallelState::sequence(const RowParallelOperands& operands, StreamRef stream) {
  if (exchanged_) return exchanged_.run(product_, operands, stream);
  sums_->in_sequence(operands, stream);
  if (spreads()) sums_->spread_sums(operands, stream);
}

}  // namespace tandem
