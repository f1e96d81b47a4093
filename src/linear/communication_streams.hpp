// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "tandem/team/team.hpp"

#include "collective/engines.hpp"
#include "collective/side_stream.hpp"

namespace tandem {

/// A plan's streams for communication beside products; none where it runs on the caller's stream.
class CommunicationStreams {
 public:
  /// Collective, as a SideStream's.
  CommunicationStreams(const Team& team, int count) {
    for (int i = 0; i < count; ++i) streams_.emplace_back(team);
  }
  /// How many are for copies to each peer that follow one another: two where engines copy for several peers, so that
  /// the start of a copy, and the signal behind it, do not hold up the next one. Copies to one peer take the same
  /// stream: the signal behind the last of them speaks for all.
  [[nodiscard]] static int for_copies(const Team& team) {
    return engines_copy(team.device()) && team.size() > 2 ? 2 : 1;
  }

  // Not where there are none.

  /// The stream for copies to, or from, the peer of this index.
  [[nodiscard]] SideStream& operator[](int peer) noexcept {
    return streams_[static_cast<std::size_t>(peer) % streams_.size()];
  }
  /// The stream for copies to, or from, all of them: of a run, all copies, or those behind the first to each peer.
  [[nodiscard]] SideStream& last() noexcept { return streams_.back(); }
  void follow(StreamRef stream) {
    for (SideStream& each : streams_) each.follow(stream);
  }
  void rejoin(StreamRef stream) {
    for (SideStream& each : streams_) each.rejoin(stream);
  }

 private:
  std::vector<SideStream> streams_;
};

}  // namespace tandem
