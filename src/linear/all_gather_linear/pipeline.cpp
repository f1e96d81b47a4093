// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/trace_range.hpp"

#include "linear/all_gather_linear/state.hpp"

namespace tandem {

void AllGatherLinear::State::pipeline(const Operands& operands, StreamRef stream) {
  if (opens_) gather_.open(stream);
  gather_.take_slot(stream);
  // Communication is queued first: it must not wait for the GEMMs that it overlaps with.
  communication_.follow(stream);
  const Shard own = shard_of(operands.m, team().size(), team().rank());
  products_.begin(stream, gather_.groups().empty() ? Weights::once : Weights::first, own.count, capturing());
  gather_.start(communication_.last().ref(), operands.x, operands.m, capturing());
  scales_.start(stream, operands.x_scale, operands.m, capturing());

  device().yield(stream);  // peers wait for each other's shards: all pushes before any GEMM
  {
    const TraceRange range(device(), stream, "GEMM own shard", TraceKind::compute);
    multiply(products_.next(stream), operands, operands.x, operands.x_scale, own);
  }
  for (const ShardGroup& group : gather_.groups()) {
    const ProductTurns::Turn turn = products_.next(stream);
    {
      const TraceRange range(device(), turn.waits, "wait for shards", TraceKind::wait);
      gather_.wait(turn.waits, group);
      scales_.wait(turn.stream);
      products_.waited(turn);
    }
    const TraceRange range(device(), turn.stream, "GEMM arrived shards", TraceKind::compute);
    multiply_gathered(turn, operands, group);
  }
  products_.rejoin(stream);
  if (keep_gathered_) gather_.keep_own_beside(communication_.last().ref(), operands.x);
  communication_.rejoin(stream);
}

}  // namespace tandem
