// SPDX-License-Identifier: Apache-2.0
#include "memory/mail_lanes.hpp"

#include <algorithm>

#include "tandem/device/mail.hpp"

#include "base/checked.hpp"
#include "memory/mail_slices.hpp"
#include "team/or_abort.hpp"

namespace tandem {
namespace {

// Up to this many bytes to all peers together are sent in packets, which double the bytes but need no signal. Where
// ranks share a GPU (no link) that is faster up to 256 KiB; but the more packets there are, the more threads of an
// early rank wait, each for a packet of its own.
constexpr std::size_t in_packets = std::size_t{128} << 10;

}  // namespace

MailLanes::MailLanes(const Team& team, std::size_t bytes, int lanes, std::uint32_t operation)
    : bytes_(bytes), lanes_(static_cast<std::size_t>(std::min(lanes, team.resident_blocks()))), operation_(operation) {
  const std::size_t taken = std::min(lanes_, (bytes + shortest_mail_slice - 1) / shortest_mail_slice);
  packet_bytes_ = std::min(bytes, in_packets / static_cast<std::size_t>(std::max(team.size() - 1, 1)));
  packet_box_ = mailbox_bytes(slice_bytes(bytes));
  const std::size_t pitch = round_up(packet_box_ + packet_box_bytes(slice_bytes(packet_bytes_)), sizeof(SignalWord));
  turn_pitch_ = static_cast<std::size_t>(team.size()) * pitch;
  memory_ = or_abort(team, "mailboxes", [&] {
    return SymmetricMemory::allocate(team, taken * mail_turns * turn_pitch_, {.channels = 1});
  });
  memory_.rendezvous();
  const auto mailbox = [&](int owner, int writer) {
    return reinterpret_cast<SignalWord*>(memory_.remote(owner) + static_cast<std::size_t>(writer) * pitch);
  };
  const int me = team.rank();
  for (int peer = 0; peer < team.size(); ++peer) {
    if (peer == me) continue;
    peers_.push_back({.theirs = mailbox(peer, me), .mine = mailbox(me, peer), .world_rank = team.world_rank(peer)});
  }
}

std::size_t MailLanes::slice_bytes(std::size_t bytes) const noexcept { return mail_slice_bytes(bytes, lanes_); }

void MailLanes::exchange(StreamRef stream, MailedExchange exchange) const {
  const Team& team = memory_.team();
  const std::size_t element = size_of(exchange.dtype);
  const std::size_t bytes = static_cast<std::size_t>(exchange.length) * element;
  exchange.peers = peers_;
  exchange.rank = team.rank();
  exchange.slice = static_cast<std::int64_t>(slice_bytes(bytes) / element);
  exchange.lane_pitch = mail_turns * turn_pitch_;
  exchange.turn_pitch = turn_pitch_;
  exchange.packet_box = bytes <= packet_bytes_ ? packet_box_ : 0;
  exchange.operation = operation_;
  team.device().mailed_exchange(stream, exchange, team.control());
}

}  // namespace tandem
