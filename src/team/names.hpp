// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "tandem/team/bootstrap.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

/// "rank 2 (host node7, pid 4242)"
[[nodiscard]] std::string to_string(const PeerInfo& peer);

/// This rank, for errors of calls on the team: "rank 0 of 3", or if its world rank differs, "rank 0 of 3 (rank 2 of the
/// world)".
[[nodiscard]] std::string name_own_rank(const Team& team);

/// A rank that is gone.
struct Gone {
  int rank;   ///< of the world
  bool left;  ///< it ended its world, and said so; false: it is lost
};

/// "rank 2 (host node7, pid 4242) is lost (its process or its world ended)", or if it `left`, "… has ended its world".
[[nodiscard]] std::string tell_gone(const PeerInfo& peer, bool left);

/// "rank 1", "ranks 0, 2 and 5", "ranks 1 to 7"
[[nodiscard]] std::string name_ranks(std::span<const int> ranks);

/// "[0, 2, 5]"
[[nodiscard]] std::string list_ranks(std::span<const int> ranks);

}  // namespace tandem
