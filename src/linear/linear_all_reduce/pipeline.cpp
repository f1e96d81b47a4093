// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/trace_range.hpp"

#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::pipeline(const PartialSums::Operands& run, StreamRef stream) {
  const auto part_of = [this](int round) { return ShardPart{.from = round, .to = round + 1, .of = rounds}; };
  const auto reduce_and_push = [&](int round) {
    sums.reduce(run, part_of(round), stream);
    communication.follow(stream);
    push_sums(run, sums.own_rows(run.m, part_of(round)), communication.ref());
    sums.signal_tail(communication.ref());
  };
  sums.take_slot(stream);
  for (int round = 0; round < rounds; ++round) {
    sums.multiply_peers(run, part_of(round), stream, communication);
    // By now the peers' products of the round before are here, or about to be.
    if (round > 0) reduce_and_push(round - 1);
    sums.multiply_own(run, part_of(round), stream);
  }
  reduce_and_push(rounds - 1);
  communication.rejoin(stream);
  {
    const TraceRange range(team.device(), stream, "wait for sums", TraceKind::wait);
    for (int round = 0; round < rounds; ++round) sums.wait_for_tail(stream);
  }
  take_sums(run, stream);
}

}  // namespace tandem
