// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/trace_range.hpp"

#include "linear/all_gather_linear/state.hpp"

namespace tandem {

void AllGatherLinear::State::sequence(const Operands& operands, StreamRef stream) {
  const bool whole = spec().x_layout == Layout::normal && team().size() > 1;  // all of x is contiguous, for one GEMM
  if (opens_) gather_.open(stream);
  gather_.take_slot(stream);
  scales_.start(stream, operands.x_scale, operands.m, capturing());
  gather_.start(stream, operands.x, operands.m, capturing());
  if (whole || keep_gathered_) gather_.keep_own(stream, operands.x);
  {
    const TraceRange range(device(), stream, "wait for shards", TraceKind::wait);
    for (const ShardGroup& group : gather_.groups()) gather_.wait(stream, group);
    scales_.wait(stream);
  }
  const TraceRange range(device(), stream, "GEMM", TraceKind::compute);
  products_.begin(stream, whole || team().size() == 1 ? Weights::once : Weights::first, operands.m, capturing());
  const ProductTurns::Turn turn = products_.next(stream);
  if (whole) {
    multiply(turn, operands, gather_.row(0), scales_.of(0, operands.x_scale), {0, operands.m});
  } else {
    multiply(turn, operands, operands.x, operands.x_scale, shard_of(operands.m, team().size(), team().rank()));
    for (const ShardGroup& group : gather_.groups()) multiply_gathered(turn, operands, group);
  }
}

}  // namespace tandem
