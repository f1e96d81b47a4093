// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/trace_range.hpp"

#include "linear/linear_weight_gradient/state.hpp"

namespace tandem {

void LinearWeightGradient::State::pipeline(const Operands& operands, StreamRef stream) {
  gather_.take_slot(stream);
  communication_.follow(stream);
  gather_.start(communication_.ref(), operands.shard, operands.m, capturing());

  device().yield(stream);  // peers wait for each other's shards: all pushes before any GEMM
  Operands parts = operands;
  if (wide_) {
    wide_->begin(stream, operands.dw);
    parts.gemm = &wide_->gemm();
    parts.dw = wide_->data();
  }
  {
    const TraceRange range(device(), stream, "GEMM own shard", TraceKind::compute);
    multiply(stream, parts, operands.shard, shard_of(operands.m, team().size(), team().rank()), spec().beta);
  }
  for (const ShardGroup& group : gather_.groups()) {
    {
      const TraceRange range(device(), stream, "wait for shards", TraceKind::wait);
      gather_.wait(stream, group);
    }
    const TraceRange range(device(), stream, "GEMM arrived shards", TraceKind::compute);
    for (const Shard rows : gather_.rows(group)) multiply(stream, parts, gather_.row(rows.begin), rows, 1.0F);
  }
  if (wide_) wide_->round(stream, operands.dw);
  communication_.rejoin(stream);
}

}  // namespace tandem
