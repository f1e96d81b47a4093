// SPDX-License-Identifier: Apache-2.0
#include "team/names.hpp"

#include "base/format.hpp"

namespace tandem {

std::string to_string(const PeerInfo& peer) {
  return format("rank {} (host {}, pid {})", peer.rank, peer.host, peer.pid);
}

std::string name_own_rank(const Team& team) {
  if (!team) return "a rank outside of the team";
  const int rank = team.rank();
  const int of_the_world = team.world_rank(rank);
  return format("rank {} of {}{}", rank, team.size(),
                of_the_world == rank ? "" : format(" (rank {} of the world)", of_the_world));
}

std::string tell_gone(const PeerInfo& peer, bool left) {
  return to_string(peer) + (left ? " has ended its world" : " is lost (its process or its world ended)");
}

std::string name_ranks(std::span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - i < 3) end = i + 1;
    text += format("{}{}", i == 0 ? "" : end == ranks.size() ? " and " : ", ", ranks[i]);
    if (end > i + 1) text += format(" to {}", ranks[end - 1]);
    i = end;
  }
  return text;
}

std::string list_ranks(std::span<const int> ranks) {
  std::string text = "[";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  return text + "]";
}

}  // namespace tandem
