// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/trace_range.hpp"

#include "linear/linear_weight_gradient/state.hpp"

namespace tandem {

void LinearWeightGradient::State::sequence(const Operands& operands, StreamRef stream) {
  gather_.take_slot(stream);
  gather_.start(stream, operands.shard, operands.m, capturing());
  if (team().size() > 1) gather_.keep_own(stream, operands.shard);
  multiply_gathered(operands, stream);
}

void LinearWeightGradient::State::multiply_gathered(const Operands& operands, StreamRef stream) const {
  {
    const TraceRange range(device(), stream, "wait for shards", TraceKind::wait);
    for (const ShardGroup& group : gather_.groups()) gather_.wait(stream, group);
  }
  const TraceRange range(device(), stream, "GEMM", TraceKind::compute);
  multiply(stream, operands, team().size() == 1 ? operands.shard : gather_.row(0), {0, operands.m}, spec().beta);
}

}  // namespace tandem
