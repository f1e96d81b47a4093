// SPDX-License-Identifier: Apache-2.0
#include "memory/meeting_place.hpp"

#include <algorithm>

#include "tandem/device/device.hpp"

#include "team/or_abort.hpp"

namespace tandem {
namespace {

// With fewer bytes, a block is not worth its synchronization with the peers.
constexpr std::size_t fewest_bytes = std::size_t{8} << 10;
// This many fill the links, or twice as many if a reduction only loads from peers: loads take a round trip, and with
// two ranks each thread has one in flight (with copies four). With more blocks, large operands finish slightly earlier.
constexpr std::size_t blocks_for_links = 64;
constexpr std::size_t bytes_beyond = std::size_t{128} << 10;  // on a rank's links, for each block, if that gives more

}  // namespace

MeetingPlace::MeetingPlace(const Team& team, int blocks, std::uint32_t operation, std::size_t bytes)
    : blocks_(std::min({blocks, most_blocks, team.resident_blocks()})), operation_(operation) {
  memory_ = or_abort(team, "meeting place", [&] {
    return SymmetricMemory::allocate(team, bytes, {.channels = static_cast<std::uint32_t>(blocks_)});
  });
  memory_.rendezvous();
  for (int peer = 0; peer < team.size(); ++peer) {
    if (peer == team.rank()) continue;
    const SignalPut words = memory_.signal_pad().signal_to(peer, 0);
    peers_.push_back({.theirs = words.theirs, .mine = words.mine, .world_rank = team.world_rank(peer)});
  }
}

MeetingBlocks MeetingPlace::blocks_for(std::size_t most_bytes, std::size_t filling) const {
  const std::size_t wanted =
      std::max(std::min(most_bytes / fewest_bytes, filling), most_bytes * peers_.size() / bytes_beyond);
  return {.peers = peers_,
          .pitch = (peers_.size() + 1) * sizeof(SignalWord),
          .blocks = static_cast<int>(std::clamp<std::size_t>(wanted, 1, static_cast<std::size_t>(blocks_))),
          .operation = operation_};
}

void MeetingPlace::reduce(StreamRef stream, const Reduction& reduction, std::size_t most_bytes) const {
  const Team& team = memory_.team();
  const std::size_t filling = reduction.peer_destinations == 0 ? 2 * blocks_for_links : blocks_for_links;
  team.device().reduce_in_meeting(stream, reduction, blocks_for(most_bytes, filling), team.control());
}

void MeetingPlace::copy(StreamRef stream, std::span<const Copy> copies, std::size_t most_bytes) const {
  const Team& team = memory_.team();
  team.device().copy_in_meeting(stream, copies, blocks_for(most_bytes, blocks_for_links), team.control());
}

void MeetingPlace::spread(StreamRef stream, const Spread& spread, std::size_t most_bytes) const {
  const Team& team = memory_.team();
  team.device().spread_in_meeting(stream, spread, blocks_for(most_bytes, blocks_for_links), team.control());
}

}  // namespace tandem
