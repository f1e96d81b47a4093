// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

void LinearAllReduce::State::pipeline(const RowParallelOperands& operands, StreamRef stream) {
  const auto exchange = [&](std::uint32_t round) {
    exchange_sums(operands, round, stream, communication().last().ref());
  };
  const std::uint32_t rounds = sums().rounds();
  sums().take_slot(stream);
  if (product().adds()) {
    // All of the peer's rows first: each part is transferred while the next one is multiplied, as are the sums later.
    for (std::uint32_t round = 0; round < rounds; ++round)
      sums().multiply_peers(operands, round, stream, communication());
    for (std::uint32_t round = 0; round < rounds; ++round) {
      sums().multiply_adding(operands, round, stream);
      exchange(round);
    }
    sums().keep_sums(operands, stream);
  } else {
    const auto add_up = [&](std::uint32_t round) {
      sums().reduce(operands, round, stream);
      exchange(round);
    };
    for (std::uint32_t round = 0; round < rounds; ++round) {
      sums().multiply_peers(operands, round, stream, communication());
      // By now the peers' partial sums of the previous round have arrived, or are about to.
      if (round > 0) add_up(round - 1);
      sums().multiply_own(operands, round, stream);
    }
    add_up(rounds - 1);
  }
  communication().rejoin(stream);
}

}  // namespace tandem
