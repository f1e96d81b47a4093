// SPDX-License-Identifier: Apache-2.0
#include "memory/slots.hpp"

#include "base/checked.hpp"
#include "team/or_abort.hpp"

namespace tandem {
namespace {

constexpr std::size_t slot_alignment = 256;  // required of operands by cuBLASLt's fastest algorithms

}  // namespace

Slots::Slots(const Team& team, std::size_t bytes, std::uint32_t arrivals, std::uint32_t operation,
             std::size_t mail_bytes)
    : bytes_(checked_round_up(bytes, slot_alignment)),
      mail_at_(round_up(arrivals * sizeof(Loan), alignof(SignalWord))),
      mailbox_bytes_(mail_bytes != 0 ? mailbox_bytes(mail_bytes) : 0),
      arrivals_(arrivals),
      operation_(operation),
      device_(&team.device()),
      control_(team.control()) {
  const std::size_t mail = count * static_cast<std::size_t>(team.size()) * mailbox_bytes_;
  const std::size_t all = checked_add(checked_mul(bytes_, count), mail_at_ + mail);
  memory_ = or_abort(team, "slots",
                     [&] { return SymmetricMemory::allocate(team, all, {.channels = count * (arrivals + 1)}); });
  memory_.rendezvous();
  pad_ = memory_.signal_pad().named(operation);
  for (int rank = 0; rank < team.size(); ++rank) remotes_.push_back(memory_.remote(rank));
  for (int step = 1; step < team.size(); ++step) peers_.push_back((team.rank() + step) % team.size());
  for (int turn = 0; turn < count && mail_bytes != 0; ++turn) {
    const auto word = [&](int owner, int writer) {
      return reinterpret_cast<SignalWord*>(mailbox(turn, owner, writer));
    };
    for (const int peer : peers_) {
      SignalWord* const mine = word(team.rank(), peer);
      letters_[static_cast<std::size_t>(turn)].push_back(
          {.put = {.mine = mine, .theirs = word(peer, team.rank())},
           .wait = {.word = mine,
                    .peer = team.world_rank(peer),
                    .channel = channel(count, static_cast<std::uint32_t>(turn)),
                    .operation = operation}});
    }
  }

  or_abort(team, "slots", [&] {
    const Stream stream(team.device());
    for (int slot = 0; slot < count; ++slot) grant(stream, slot, peers_);
    team.synchronize(stream);
  });
}

void Slots::take(StreamRef stream, int slot, std::span<const int> readers) const {
  pad_.wait_signals(stream, readers, channel(slot, 0));
}

void Slots::take_and_count(StreamRef stream, int slot, std::span<const int> readers, std::uint32_t arrival,
                           std::uint32_t many) const {
  pad_.wait_and_count(stream, readers, channel(slot, 0), channel(slot, 1 + arrival), many);
}

void Slots::signal(StreamRef stream, int slot, std::span<const int> readers, std::uint32_t arrival) const {
  pad_.put_signals(stream, readers, channel(slot, 1 + arrival));
}

void Slots::signal_counted(StreamRef stream, int slot, std::span<const int> readers, std::uint32_t arrival) const {
  pad_.put_counted(stream, readers, channel(slot, 1 + arrival));
}

void Slots::wait(StreamRef stream, int slot, std::span<const int> writers, std::uint32_t arrival) const {
  pad_.wait_signals(stream, writers, channel(slot, 1 + arrival));
}

void Slots::grant(StreamRef stream, int slot, std::span<const int> writers) const {
  pad_.put_signals(stream, writers, channel(slot, 0));
}

void Slots::send(StreamRef stream, std::span<const Letter> letters, const MailUse& use) const {
  device_->mail(stream, letters, use, control_);
}

void Slots::lend(StreamRef stream, const void* memory, std::uint32_t arrival) const {
  const Team& team = memory_.team();
  team.device().lend(stream, loan(team.rank(), arrival), memory);
  signal(stream, 0, peers_, arrival);
}

void Slots::fetch(StreamRef stream, int lender, std::uint32_t arrival, std::size_t offset, void* to,
                  std::size_t bytes) const {
  if (bytes == 0) return;
  const Team& team = memory_.team();
  const PeerInfo& peer = team.peer(lender);
  team.device().fetch(stream,
                      {.dst = to,
                       .loan = loan(lender, arrival),
                       .offset = offset,
                       .bytes = bytes,
                       .process = peer.pid,
                       .peer = peer.rank,
                       .operation = operation_},
                      team.control());
}

}  // namespace tandem
