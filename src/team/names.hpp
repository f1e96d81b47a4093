// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "tandem/team/bootstrap.hpp"

namespace tandem {

/// The name of this machine.
[[nodiscard]] std::string host_name();

/// "rank 2 (host node7, pid 4242)"
[[nodiscard]] std::string to_string(const PeerInfo& peer);

/// "rank 1", "ranks 0, 2 and 5"
[[nodiscard]] std::string name_ranks(std::span<const int> ranks);

/// "[0, 2, 5]"
[[nodiscard]] std::string list_ranks(std::span<const int> ranks);

}  // namespace tandem
