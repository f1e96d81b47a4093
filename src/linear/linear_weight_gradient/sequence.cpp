// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/trace_range.hpp"

#include "linear/linear_weight_gradient/state.hpp"

namespace tandem {

void LinearWeightGradient::State::sequence(const Operands& run, StreamRef stream) {
  gather.take_slot(stream);
  gather.start(stream, run.shard, run.m);
  if (team().size() > 1) gather.keep_own(stream, run.shard);
  multiply_gathered(run, stream);
}

void LinearWeightGradient::State::multiply_gathered(const Operands& run, StreamRef stream) const {
  {
    const TraceRange range(device(), stream, "wait for shards", TraceKind::wait);
    for (const ShardGroup& group : gather.groups()) gather.wait(stream, group);
  }
  const TraceRange range(device(), stream, "GEMM", TraceKind::compute);
  multiply(stream, run, team().size() == 1 ? run.shard : gather.row(0), {0, run.m}, spec().beta);
}

}  // namespace tandem
