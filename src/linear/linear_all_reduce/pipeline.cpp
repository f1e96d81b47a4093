// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::pipeline(const PartialSums::Operands& run, StreamRef stream) {
  const std::vector<ShardPart> parts = equal_parts(rounds);
  const auto spread = [&](const ShardPart& part) {
    sums.offer_sums(stream);
    sums.wait_for_sums(communication.ref());
    communication.follow(stream);
    sums.take_sums(run, part, communication.ref());
  };
  sums.take_slot(stream);
  if (sums.product_adds()) {
    // All of the peer's rows first: they travel while those after them are multiplied, and then the sums do.
    for (const ShardPart& part : parts) sums.multiply_peers(run, part, stream, communication);
    for (const ShardPart& part : parts) {
      sums.multiply_adding(run, part, stream);
      spread(part);
    }
  } else {
    for (std::size_t round = 0; round < parts.size(); ++round) {
      sums.multiply_peers(run, parts[round], stream, communication);
      if (round > 0) {
        // By now the peers' products of the round before are here, or about to be.
        sums.reduce(run, parts[round - 1], stream);
        spread(parts[round - 1]);
      }
      sums.multiply_own(run, parts[round], stream);
    }
    sums.reduce(run, parts.back(), stream);
    spread(parts.back());
  }
  communication.rejoin(stream);
}

}  // namespace tandem
