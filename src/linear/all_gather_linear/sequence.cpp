// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/trace_range.hpp"

#include "linear/all_gather_linear/state.hpp"

namespace tandem {

void AllGatherLinear::State::sequence(const Operands& run, StreamRef stream) {
  const bool whole = spec().x == Layout::normal && team().size() > 1;  // all of x is contiguous, for one GEMM
  if (opens) gather.open(stream);
  gather.take_slot(stream);
  gather.start(stream, run.x, run.m);
  if (whole || keep_gathered) gather.keep_own(stream, run.x);
  {
    const TraceRange range(device(), stream, "wait for shards", TraceKind::wait);
    for (const ShardGroup& group : gather.groups()) gather.wait(stream, group);
  }
  const TraceRange range(device(), stream, "GEMM", TraceKind::compute);
  products.begin(stream, whole || team().size() == 1 ? Weights::once : Weights::first);
  const ProductTurns::Turn turn = products.next(stream);
  if (whole) {
    multiply(turn, run, gather.row(0), {0, run.m});
  } else {
    multiply(turn, run, run.x, shard_rows(run.m, team().size(), team().rank()));
    for (const ShardGroup& group : gather.groups()) multiply_gathered(turn, run, group);
  }
}

}  // namespace tandem
