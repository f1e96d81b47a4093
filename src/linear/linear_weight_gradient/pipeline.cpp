// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/trace_range.hpp"

#include "linear/linear_weight_gradient/state.hpp"

namespace tandem {

void LinearWeightGradient::State::pipeline(const Operands& run, StreamRef stream) {
  gather.take_slot(stream);
  communication.follow(stream);
  gather.start(communication.ref(), run.shard, run.m);

  device().yield(stream);  // peers wait for each other's shards: all pushes before any GEMM
  Operands parts = run;
  if (wide) {
    wide->begin(stream, run.dw);
    parts.gemm = &wide->gemm();
    parts.dw = wide->data();
  }
  {
    const TraceRange range(device(), stream, "GEMM own shard", TraceKind::compute);
    multiply(stream, parts, run.shard, shard_rows(run.m, team().size(), team().rank()), spec().beta);
  }
  for (const ShardGroup& group : gather.groups()) {
    {
      const TraceRange range(device(), stream, "wait for shards", TraceKind::wait);
      gather.wait(stream, group);
    }
    const TraceRange range(device(), stream, "GEMM arrived shards", TraceKind::compute);
    for (const RowRange rows : gather.rows(group)) multiply(stream, parts, gather.row(rows.begin), rows, 1.0F);
  }
  if (wide) wide->round(stream, run.dw);
  communication.rejoin(stream);
}

}  // namespace tandem
