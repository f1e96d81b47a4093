// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/trace_range.hpp"

#include "linear/all_gather_linear/state.hpp"

namespace tandem {

void AllGatherLinear::State::pipeline(const Operands& run, StreamRef stream) {
  if (opens) gather.open(stream);
  gather.take_slot(stream);
  // Communication is queued first: it must not wait for the GEMMs that it overlaps with.
  communication.follow(stream);
  products.begin(stream, gather.groups().empty() ? Weights::once : Weights::first);
  gather.start(communication.last().ref(), run.x, run.m);

  device().yield(stream);  // peers wait for each other's shards: all pushes before any GEMM
  {
    const TraceRange range(device(), stream, "GEMM own shard", TraceKind::compute);
    multiply(products.next(stream), run, run.x, shard_rows(run.m, team().size(), team().rank()));
  }
  for (const ShardGroup& group : gather.groups()) {
    const ProductTurns::Turn turn = products.next(stream);
    {
      const TraceRange range(device(), turn.stream, "wait for shards", TraceKind::wait);
      gather.wait(turn.stream, group);
      products.waited(turn);
    }
    const TraceRange range(device(), turn.stream, "GEMM arrived shards", TraceKind::compute);
    multiply_gathered(turn, run, group);
  }
  products.rejoin(stream);
  if (keep_gathered) gather.keep_own_beside(communication.last().ref(), run.x);
  communication.rejoin(stream);
}

}  // namespace tandem
