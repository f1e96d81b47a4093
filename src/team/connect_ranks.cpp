// SPDX-License-Identifier: Apache-2.0
#include "team/connect_ranks.hpp"

#include "team/joining_rank.hpp"
#include "team/rank_zero.hpp"

namespace tandem {

std::vector<PeerSocket> connect_ranks(const RankOfJob& rank) {
  if (rank.rank == 0) return RankZero(rank).run();
  return JoiningRank(rank).run();
}

}  // namespace tandem
