// SPDX-License-Identifier: Apache-2.0
#include "tandem/memory/mail_lanes.hpp"

#include <algorithm>

#include "tandem/base/checked.hpp"
#include "tandem/device/mail.hpp"

#include "team/or_abort.hpp"

namespace tandem {
namespace {

// A quarter of an H200's multiprocessors copy as fast as its links take it.
constexpr std::size_t most_lanes = 32;

// A 16-byte access for each of a block's threads: less would not be faster.
constexpr std::size_t shortest_slice = 4096;

constexpr std::size_t turns = 2;

std::size_t slice_bytes(std::size_t bytes) {
  return std::max(shortest_slice, round_up((bytes + most_lanes - 1) / most_lanes, 16));
}

}  // namespace

MailLanes::MailLanes(const Team& team, std::size_t bytes, std::uint32_t operation)
    : bytes_(bytes), operation_(operation) {
  const std::size_t lanes = std::min(most_lanes, (bytes + shortest_slice - 1) / shortest_slice);
  const std::size_t pitch = mailbox_bytes(slice_bytes(bytes));
  turn_pitch_ = static_cast<std::size_t>(team.size()) * pitch;
  memory_ = or_abort(team, "mailboxes",
                     [&] { return SymmetricMemory::allocate(team, lanes * turns * turn_pitch_, {.channels = 1}); });
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

void MailLanes::sum(StreamRef stream, const void* input, void* out, std::int64_t count, DType dtype) const {
  const Team& team = memory_.team();
  const std::size_t slice = slice_bytes(static_cast<std::size_t>(count) * size_of(dtype));
  team.device().mailed_sum(stream,
                           {.peers = peers_,
                            .rank = team.rank(),
                            .input = input,
                            .out = out,
                            .count = count,
                            .dtype = dtype,
                            .slice = static_cast<std::int64_t>(slice / size_of(dtype)),
                            .lane_pitch = turns * turn_pitch_,
                            .turn_pitch = turn_pitch_,
                            .operation = operation_},
                           team.control());
}

}  // namespace tandem
