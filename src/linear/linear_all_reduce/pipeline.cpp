// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::pipeline(const PartialSums::Operands& run, StreamRef stream) {
  const auto part_of = [this](int round) { return ShardPart{.from = round, .to = round + 1, .of = rounds}; };
  const auto take = [&](int round) {
    communication.follow(stream);
    sums.take_sums(run, part_of(round), communication.ref());
  };
  sums.take_slot(stream);
  if (sums.product_adds()) {
    // All of the peer's rows first: they travel while those after them are multiplied, and then the sums do.
    for (int round = 0; round < rounds; ++round) sums.multiply_peers(run, part_of(round), stream, communication);
    for (int round = 0; round < rounds; ++round) {
      sums.multiply_adding(run, part_of(round), stream);
      take(round);
    }
  } else {
    for (int round = 0; round < rounds; ++round) {
      sums.multiply_peers(run, part_of(round), stream, communication);
      // By now the peers' products of the round before are here, or about to be.
      if (round > 0) {
        sums.reduce(run, part_of(round - 1), stream);
        take(round - 1);
      }
      sums.multiply_own(run, part_of(round), stream);
    }
    sums.reduce(run, part_of(rounds - 1), stream);
    take(rounds - 1);
  }
  communication.rejoin(stream);
}

}  // namespace tandem
