// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/device/event.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

#include "team/or_abort.hpp"

namespace tandem {

/// A plan's stream beside the caller's, and the events that tie it to that one. Of high priority, if it communicates.
class SideStream {
 public:
  explicit SideStream(Device& device, StreamPriority priority = StreamPriority::high)
      : stream_(device, priority), fork_(device), join_(device) {}
  /// The same in a collective constructor: the other members hear of it if this rank alone gets none.
  explicit SideStream(const Team& team)
      : SideStream(or_abort(team, "a stream", [&] { return SideStream(team.device()); })) {}

  [[nodiscard]] StreamRef ref() const noexcept { return stream_; }
  /// What is queued here from now on starts after what is queued on `stream` now.
  void follow(StreamRef stream) {
    order_after(stream_, stream, fork_);
    apart_ = true;
  }
  /// What is queued on `stream` from now on starts after what is queued here now. Nothing where nothing was since the
  /// last time: a graph may wait only for what it captured.
  void rejoin(StreamRef stream) {
    if (std::exchange(apart_, false)) order_after(stream, stream_, join_);
  }

 private:
  Stream stream_;
  Event fork_;
  Event join_;
  bool apart_ = false;
};

/// Calls `body`, and if it throws, has `streams`, one or several, rejoin `stream`: what was queued there until then
/// still reads what the caller gave, and a capture that was not joined could not be ended.
template <typename Streams, typename Body> void rejoin_if_thrown(Streams& streams, StreamRef stream, const Body& body) {
  try {
    body();
  } catch (...) {
    try {
      streams.rejoin(stream);
    } catch (const Error&) {  // a device that refuses this as well; what was thrown first says why
    }
    throw;
  }
}

}  // namespace tandem
