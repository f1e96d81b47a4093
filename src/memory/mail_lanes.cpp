// SPDX-License-Identifier: Apache-2.0
#include "tandem/memory/mail_lanes.hpp"

#include <algorithm>

#include "tandem/base/checked.hpp"
#include "tandem/device/mail.hpp"

#include "team/or_abort.hpp"

namespace tandem {
namespace {

// 256 accesses of 16 bytes: more blocks of less would not be faster.
constexpr std::size_t shortest_slice = 4096;

constexpr std::size_t turns = 2;

}  // namespace

MailLanes::MailLanes(const Team& team, std::size_t bytes, int lanes, std::uint32_t operation)
    : bytes_(bytes), lanes_(static_cast<std::size_t>(lanes)), operation_(operation) {
  const std::size_t taken = std::min(lanes_, (bytes + shortest_slice - 1) / shortest_slice);
  const std::size_t pitch = mailbox_bytes(slice_bytes(bytes));
  turn_pitch_ = static_cast<std::size_t>(team.size()) * pitch;
  memory_ = or_abort(team, "mailboxes",
                     [&] { return SymmetricMemory::allocate(team, taken * turns * turn_pitch_, {.channels = 1}); });
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

std::size_t MailLanes::slice_bytes(std::size_t bytes) const noexcept {
  return std::max(shortest_slice, round_up((bytes + lanes_ - 1) / lanes_, 16));
}

void MailLanes::exchange(StreamRef stream, MailedExchange exchange) const {
  const Team& team = memory_.team();
  const std::size_t element = size_of(exchange.dtype);
  exchange.peers = peers_;
  exchange.rank = team.rank();
  exchange.slice =
      static_cast<std::int64_t>(slice_bytes(static_cast<std::size_t>(exchange.length) * element) / element);
  exchange.lane_pitch = turns * turn_pitch_;
  exchange.turn_pitch = turn_pitch_;
  exchange.operation = operation_;
  team.device().mailed_exchange(stream, exchange, team.control());
}

}  // namespace tandem
