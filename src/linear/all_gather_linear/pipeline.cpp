// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/trace_range.hpp"

#include "linear/all_gather_linear/state.hpp"

namespace tandem {

void AllGatherLinear::State::pipeline(const Operands& run, StreamRef stream) {
  if (opens) gather.open(stream);
  gather.take_slot(stream);
  // Communication is enqueued first: it must not queue behind the products that it hides behind.
  communication.follow(stream);
  gather.start(communication.ref(), run.x, run.m);
  weights = gather.groups().empty() ? Weights::once : Weights::first;

  Device& device = team.device();
  device.yield(stream);  // the peers wait for each other's shards: all pushes before any product
  {
    const TraceRange range(device, stream, "GEMM own shard", TraceKind::compute);
    multiply(stream, run, run.x, shard_rows(run.m, team.size(), team.rank()));
  }
  for (const ShardGroup& group : gather.groups()) {
    {
      const TraceRange range(device, stream, "wait for shards", TraceKind::wait);
      gather.wait(stream, group);
    }
    const TraceRange range(device, stream, "GEMM arrived shards", TraceKind::compute);
    multiply_gathered(stream, run, group);
  }
  if (keep_gathered) gather.keep_own(stream, run.x);
  communication.rejoin(stream);
}

}  // namespace tandem
