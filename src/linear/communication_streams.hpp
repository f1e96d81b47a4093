// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "tandem/team/team.hpp"

#include "collective/engines.hpp"
#include "collective/side_stream.hpp"

namespace tandem {

/// A plan's streams for communication concurrent with GEMMs; none if it communicates on the caller's stream.
class CommunicationStreams {
 public:
  /// Collective, as the SideStream constructor that takes a team.
  CommunicationStreams(const Team& team, int count) {
    for (int i = 0; i < count; ++i) streams_.emplace_back(team);
  }
  /// How many streams to use for consecutive copies to different peers: two if copy engines copy for several peers, so
  /// that the start of a copy, and the signal after it, do not delay the next one. All copies to one peer use the same
  /// stream: the signal after the last one covers them all.
  [[nodiscard]] static int for_copies(const Team& team) {
    return engines_copy(team.device()) && team.size() > 2 ? 2 : 1;
  }

  // `operator[]` and `last` need at least one stream.

  /// The stream for copies to, or from, the peer of this index.
  [[nodiscard]] SideStream& operator[](int peer) noexcept {
    return streams_[static_cast<std::size_t>(peer) % streams_.size()];
  }
  /// The stream for copies to or from all peers: all copies of a run, or those that follow the first ones to each peer.
  [[nodiscard]] SideStream& last() noexcept { return streams_.back(); }
  /// Work queued on `last` from now on starts after what is already queued on all of them.
  void gather_on_last() {
    for (SideStream& each : streams_) {
      if (&each != &last()) last().follow(each.ref());
    }
  }
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
