// SPDX-License-Identifier: Apache-2.0
#include "tandem/memory/meeting_place.hpp"

#include <algorithm>

#include "tandem/device/device.hpp"

#include "team/or_abort.hpp"

namespace tandem {
namespace {

// A block of fewer meets for too little.
constexpr std::size_t bytes_of_a_block = std::size_t{8} << 10;

}  // namespace

MeetingPlace::MeetingPlace(const Team& team, int blocks, std::uint32_t operation)
    : blocks_(std::min(blocks, most_blocks)), operation_(operation) {
  memory_ = or_abort(team, "meeting place", [&] {
    return SymmetricMemory::allocate(team, 0, {.channels = static_cast<std::uint32_t>(blocks_)});
  });
  memory_.rendezvous();
  for (int peer = 0; peer < team.size(); ++peer) {
    if (peer == team.rank()) continue;
    const SignalPut words = memory_.signal_pad().signal_to(peer, 0);
    peers_.push_back({.theirs = words.theirs, .mine = words.mine, .world_rank = team.world_rank(peer)});
  }
}

void MeetingPlace::reduce(StreamRef stream, const Reduction& reduction, std::size_t most_bytes) const {
  const Team& team = memory_.team();
  // A rank's stores go to every peer, and its loads come from every one. Copies have no loads from peers to wait for:
  // half as many blocks fill the links.
  const int fast = reduction.sources.size() == 1 ? (blocks_ + 1) / 2 : blocks_;
  const int wanted = static_cast<int>(
      std::min<std::size_t>((most_bytes + bytes_of_a_block - 1) / bytes_of_a_block, static_cast<std::size_t>(blocks_)));
  const int most = std::max(fast / static_cast<int>(peers_.size()), 1);
  const MeetingBlocks meeting{.peers = peers_,
                              .pitch = static_cast<std::size_t>(team.size()) * sizeof(SignalWord),
                              .blocks = std::clamp(wanted, 1, most),
                              .operation = operation_};
  team.device().reduce_in_meeting(stream, reduction, meeting, team.control());
}

}  // namespace tandem
