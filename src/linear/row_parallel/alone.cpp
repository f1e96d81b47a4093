// SPDX-License-Identifier: Apache-2.0
#include "linear/row_parallel/state.hpp"

namespace tandem {

void RowParallelState::alone(const RowParallelOperands& operands, StreamRef stream) {
  product_.multiply_alone(operands, stream);
}

}  // namespace tandem
