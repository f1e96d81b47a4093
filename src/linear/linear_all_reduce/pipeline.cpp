// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::pipeline(const PartialSums::Operands& run, StreamRef stream) {
  const auto exchange = [&](const ShardPart& part) { exchange_sums(run, part, stream, communication.last().ref()); };
  sums.take_slot(stream);
  if (sums.product_adds()) {
    // All of the peer's rows first: they travel while those after them are multiplied, and then the sums do.
    for (const ShardPart& part : rounds) sums.multiply_peers(run, part, stream, communication);
    for (const ShardPart& part : rounds) {
      sums.multiply_adding(run, part, stream);
      exchange(part);
    }
    sums.keep_sums(run, stream);
  } else {
    const auto add_up = [&](const ShardPart& part) {
      sums.reduce(run, part, stream);
      exchange(part);
    };
    for (std::size_t round = 0; round < rounds.size(); ++round) {
      sums.multiply_peers(run, rounds[round], stream, communication);
      // By now the peers' products of the round before are here, or about to be.
      if (round > 0) add_up(rounds[round - 1]);
      sums.multiply_own(run, rounds[round], stream);
    }
    add_up(rounds.back());
  }
  communication.rejoin(stream);
}

}  // namespace tandem
