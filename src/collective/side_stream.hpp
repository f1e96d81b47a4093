// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/device/event.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

#include "team/or_abort.hpp"

namespace tandem {

/// A plan's own stream next to the caller's, and the events that order the two. High priority is for communication.
class SideStream {
 public:
  explicit SideStream(Device& device, StreamPriority priority = StreamPriority::high)
      : stream_(device, priority), fork_(device), join_(device) {}
  /// In a collective constructor: if this rank fails to create one, the other members are told.
  explicit SideStream(const Team& team)
      : SideStream(or_abort(team, "a stream", [&] { return SideStream(team.device()); })) {}

  [[nodiscard]] StreamRef ref() const noexcept { return stream_; }
  /// Work queued here from now on starts after what is already queued on `stream`.
  void follow(StreamRef stream) {
    order_after(stream_, stream, fork_);
    apart_ = true;
  }
  /// Work queued on `stream` from now on starts after what is already queued here. Does nothing unless `follow` was
  /// called since the last time: a graph may wait only for what it captured.
  void rejoin(StreamRef stream) {
    if (std::exchange(apart_, false)) order_after(stream, stream_, join_);
  }
  /// `rejoin` has nothing to wait for until the next `follow`: what was queued here belongs to a capture that was
  /// dropped, or has rejoined in another way.
  void forget() noexcept { apart_ = false; }

 private:
  Stream stream_;
  Event fork_;
  Event join_;
  bool apart_ = false;
};

/// Calls `body`; if it throws, has `streams` (one or several) rejoin `stream`: what was queued there still reads the
/// caller's tensors, and a capture with an unjoined stream could not be ended.
template <typename Streams, typename Body> void rejoin_if_thrown(Streams& streams, StreamRef stream, const Body& body) {
  try {
    body();
  } catch (...) {
    try {
      streams.rejoin(stream);
    } catch (const Error&) {  // the device refuses this as well; the first exception says why
    }
    throw;
  }
}

}  // namespace tandem
