// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/trace_range.hpp"

#include "linear/all_gather_linear/state.hpp"
#include "linear/groups.hpp"

namespace tandem {

void AllGatherLinear::State::pipeline(const Operands& run, StreamRef stream) {
  // Communication is enqueued first: it must not queue behind the products that it hides behind.
  communication.follow(stream);
  gather.start(communication.ref(), run.x, run.m);

  Device& device = team.device();
  {
    const TraceRange range(device, stream, "GEMM own shard", TraceKind::compute);
    multiply(stream, run, run.x, shard_rows(run.m, team.size(), team.rank()));
  }
  std::span<const int> coming = gather.arrivals();
  for (const int size : growing_groups(team.size() - 1, choice.groups)) {
    const auto group = coming.first(static_cast<std::size_t>(size));
    coming = coming.subspan(group.size());
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
