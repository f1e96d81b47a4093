// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_weight_gradient/state.hpp"

namespace tandem {

void LinearWeightGradient::State::gather_early(const std::byte* shard, std::int64_t m, StreamRef stream) {
  gather_.take_slot(stream);
  if (team().size() > 1) {
    communication_.follow(stream);
    gather_.start(communication_.ref(), shard, m, capturing());
    gather_.keep_own_beside(communication_.ref(), shard);
    device().yield(stream);  // as in the pipeline: all pushes before the work that they overlap with
  }
  started_ = {shard, m, capture()};
}

void LinearWeightGradient::State::finish_started(const Operands& operands, StreamRef stream) {
  started_.reset();
  communication_.rejoin(stream);  // after the own shard's copy
  multiply_gathered(operands, stream);
}

}  // namespace tandem
