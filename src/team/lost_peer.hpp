// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <string>

#include "tandem/base/error.hpp"
#include "tandem/team/bootstrap.hpp"

namespace tandem {

/// The error that reports the loss of this peer.
[[nodiscard]] inline PeerLost lost_peer(const std::string& what, const PeerInfo& peer,
                                        std::source_location where = std::source_location::current()) {
  return {what, peer.rank, peer.host, peer.pid, where};
}

/// The peer whose loss this error reports, to report it in other words.
[[nodiscard]] inline PeerInfo peer_of(const PeerLost& error) {
  return {.rank = error.rank(), .pid = error.pid(), .host = error.host()};
}

}  // namespace tandem
