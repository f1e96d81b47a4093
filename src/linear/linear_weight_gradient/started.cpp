// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_weight_gradient/state.hpp"

namespace tandem {

void LinearWeightGradient::State::gather_early(const std::byte* shard, std::int64_t m, StreamRef stream) {
  gather.take_slot(stream);
  if (team().size() > 1) {
    communication.follow(stream);
    gather.start(communication.ref(), shard, m);
    gather.keep_own_beside(communication.ref(), shard);
    device().yield(stream);  // as in the pipeline: all pushes before the work that they overlap with
  }
  started = {shard, m, capture()};
}

void LinearWeightGradient::State::finish_started(const Operands& run, StreamRef stream) {
  started.reset();
  communication.rejoin(stream);  // after the own shard's copy
  multiply_gathered(run, stream);
}

}  // namespace tandem
