// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::pipeline(const PartialSums::Operands& run, StreamRef stream) {
  const auto spread = [&](const ShardPart& part) {
    sums.offer_sums(stream);
    CommunicationStream& taking = communication.last();
    // Not ahead of the products that the sums are of: on a GPU a wait keeps a multiprocessor from those.
    sums.wait_for_sums(sums_at_once ? stream : taking.ref());
    taking.follow(stream);
    sums.take_sums(run, part, taking.ref());
  };
  sums.take_slot(stream);
  if (sums.product_adds()) {
    // All of the peer's rows first: they travel while those after them are multiplied, and then the sums do.
    for (const ShardPart& part : rounds) sums.multiply_peers(run, part, stream, communication);
    for (const ShardPart& part : rounds) {
      sums.multiply_adding(run, part, stream);
      spread(part);
    }
    sums.keep_sums(run, stream);
  } else {
    const auto add_up = [&](const ShardPart& part) {
      sums.reduce(run, part, stream);
      spread(part);
    };
    for (std::size_t round = 0; round < rounds.size(); ++round) {
      sums.multiply_peers(run, rounds[round], stream, communication);
      // By now the peers' products of the round before are here, or about to be.
      if (!sums_at_once && round > 0) add_up(rounds[round - 1]);
      sums.multiply_own(run, rounds[round], stream);
      if (sums_at_once) add_up(rounds[round]);
    }
    if (!sums_at_once) add_up(rounds.back());
  }
  communication.rejoin(stream);
}

}  // namespace tandem
