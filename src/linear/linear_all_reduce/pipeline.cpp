// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::pipeline(const PartialSums::Operands& run, StreamRef stream) {
  if (sums.product_adds()) {
    sums.multiply_sent(run, stream, communication);
    for (const ShardPart& part : sums.adding_parts()) {
      sums.multiply_adding(run, part, stream);
      sums.offer_sums(stream);
      sums.take_sums(run, part, communication.ref());
      communication.follow(stream);
      sums.keep_sums(run, part, communication.ref());
    }
  } else {
    const auto reduce_and_take = [&](const ShardPart& part) {
      sums.reduce(run, part, stream);
      sums.offer_sums(stream);
      sums.take_sums(run, part, communication.ref());
    };
    const std::vector<ShardPart> parts = equal_parts(rounds);
    sums.take_slot(stream);
    for (std::size_t round = 0; round < parts.size(); ++round) {
      sums.multiply_peers(run, parts[round], stream, communication);
      // By now the peers' products of the round before are here, or about to be.
      if (round > 0) reduce_and_take(parts[round - 1]);
      sums.multiply_own(run, parts[round], stream);
    }
    reduce_and_take(parts.back());
  }
  communication.rejoin(stream);
}

}  // namespace tandem
