// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/base/export.hpp"
#include "tandem/device/mail.hpp"
#include "tandem/memory/symmetric_memory.hpp"

namespace tandem {

/// A plan's own symmetric memory: two slots, so that consecutive calls overlap, each with its credits and its arrival
/// signals.
///
/// The protocol, the same for pushes (a writer writes a peer's slot) and pulls (a writer writes its own, peers read
/// it):
///   writer:  take(readers) → write → signal(reader, arrival)
///   reader:  wait(writer, arrival) → read → grant(writers)
/// Each pair of ranks starts with one credit for each slot in each direction. A run that takes a rank's credit signals
/// it once for each part that it writes, the rank waits once for each part, and grants once after the last: so counts
/// agree whatever order captured and eager calls come in. Who keeps a slot beyond a run that is captured
/// (AllGatherLinear) grants it early, and more than once: there all runs begin with an exchange, which says what
/// credits say elsewhere.
///
/// Instead of a copy into its slot, a rank may lend its peers what lies in its private memory, which they then read in
/// one copy, where the system allows it:
///   lender:  lend(arrival) → … → wait until every peer has signalled that it has read
///   reader:  wait(lender, arrival) → fetch → signal that it has read
///
/// Short messages between all ranks may go by mail: each rank writes each peer's into one of two mailboxes there, in
/// turn, and waits for one from each.
///   every rank:  mail(messages, what is made of those that `mailed` gives)
/// Nothing else is granted: who writes a mailbox again has had everybody's next message, which nobody sends before it
/// has read this one. So who has nothing for a peer sends it a message without bytes (MailedExchange says why).
class TANDEM_API Slots {
 public:
  static constexpr int count = 2;

  struct Message {
    const void* data = nullptr;
    std::size_t bytes = 0;
  };

  Slots() = default;
  /// Collective. `bytes` for each slot; `arrivals` signals from each peer for each slot; mail of up to `mail_bytes` to
  /// each peer. Named `operation` in errors.
  /// Waits for all members, and throws what SymmetricMemory's `allocate` and `rendezvous` and Team::synchronize throw.
  Slots(const Team& team, std::size_t bytes, std::uint32_t arrivals, std::uint32_t operation,
        std::size_t mail_bytes = 0);

  /// The slot of the next call: they alternate, equally on all ranks.
  [[nodiscard]] int next() noexcept {
    turn_ = (turn_ + 1) % count;
    return turn_;
  }
  /// This rank's slot, and the same one of another rank. Not checked: the slot is one that `next` gave, the rank is one
  /// of the team's.
  [[nodiscard]] std::byte* local(int slot) const { return remote(slot, memory_.team().rank()); }
  [[nodiscard]] std::byte* remote(int slot, int rank) const {
    return remotes_[static_cast<std::size_t>(rank)] + static_cast<std::size_t>(slot) * bytes_;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// What all this lies in (see SymmetricMemory::parts).
  [[nodiscard]] std::vector<std::shared_ptr<void>> parts() const { return memory_.parts(); }
  /// All ranks but this one, beginning with the next: the order in which peers are visited, so that no two ranks meet.
  [[nodiscard]] std::span<const int> peers() const noexcept { return peers_; }

  // The steps of the protocol above. Asynchronous, in the stream's order; waits end and fail as SignalPad's do. Ranks
  // are checked (InvalidArgument); slots are those that `next` gave, and an arrival is below `arrivals`.

  void take(StreamRef stream, int slot, std::span<const int> readers) const;
  /// The same, which also counts the signals of so many arrivals from this one on, all below `arrivals`, one of each to
  /// each: they follow as `signal_counted`, or `signal_to` with `counted` set.
  void take_and_count(StreamRef stream, int slot, std::span<const int> readers, std::uint32_t arrival,
                      std::uint32_t many = 1) const;
  void signal(StreamRef stream, int slot, std::span<const int> readers, std::uint32_t arrival) const;
  void signal_counted(StreamRef stream, int slot, std::span<const int> readers, std::uint32_t arrival) const;
  /// `signal` to one reader, for who queues it together with the copy (Device::push).
  [[nodiscard]] SignalPut signal_to(int slot, int reader, std::uint32_t arrival) const {
    return pad_.signal_to(reader, channel(slot, 1 + arrival));
  }
  void wait(StreamRef stream, int slot, std::span<const int> writers, std::uint32_t arrival) const;
  /// `signal` to all peers, then `wait` for all, in one step of the device.
  void exchange(StreamRef stream, int slot, std::uint32_t arrival) const {
    pad_.exchange_signals(stream, peers_, channel(slot, 1 + arrival));
  }
  void grant(StreamRef stream, int slot, std::span<const int> writers) const;

  /// Lends all peers what begins at `memory`, and signals it as slot 0's `arrival`. For a team whose ranks can read
  /// each other's private memory.
  void lend(StreamRef stream, const void* memory, std::uint32_t arrival) const;
  /// Reads `bytes` at `offset` of what `lender` lent with `arrival`. Nothing for 0 bytes.
  void fetch(StreamRef stream, int lender, std::uint32_t arrival, std::size_t offset, void* to,
             std::size_t bytes) const;

  /// Goes on to the mailboxes of the next `mail`.
  void next_mail() noexcept { mail_turn_ = (mail_turn_ + 1) % count; }
  /// Where the message of `rank`, a peer, lies from the next `mail` on, until `next_mail` is called again, in the order
  /// of the stream.
  [[nodiscard]] const std::byte* mailed(int rank) const {
    return mailbox(mail_turn_, memory_.team().rank(), rank) + mail_offset;
  }
  /// Sends every peer a message, waits for everybody's, and makes of them what `use` says; `message_for(rank)` gives
  /// what goes to that peer. Once for each `next_mail`. In the stream's order; for a device that sends letters.
  template <typename MessageFor> void mail(StreamRef stream, const MessageFor& message_for, const MailUse& use) {
    std::vector<Letter>& letters = letters_[static_cast<std::size_t>(mail_turn_)];
    for (std::size_t i = 0; i < letters.size(); ++i) {
      const Message message = message_for(peers_[i]);
      letters[i].message = message.data;
      letters[i].bytes = message.bytes;
    }
    send(stream, letters, use);
  }

 private:
  void send(StreamRef stream, std::span<const Letter> letters, const MailUse& use) const;
  /// What `owner` gets from `writer`.
  [[nodiscard]] std::byte* mailbox(int turn, int owner, int writer) const {
    const auto place = static_cast<std::size_t>(turn) * remotes_.size() + static_cast<std::size_t>(writer);
    return remote(count, owner) + mail_at_ + place * mailbox_bytes_;
  }
  [[nodiscard]] std::uint32_t channel(int slot, std::uint32_t which) const noexcept {
    return static_cast<std::uint32_t>(slot) * (arrivals_ + 1) + which;
  }
  [[nodiscard]] Loan* loan(int rank, std::uint32_t arrival) const {
    return reinterpret_cast<Loan*>(remote(count, rank)) + arrival;  // behind the last slot
  }

  SymmetricMemory memory_;
  SignalPad pad_;
  std::vector<std::byte*> remotes_;
  std::vector<int> peers_;
  std::array<std::vector<Letter>, count> letters_;  // to each peer, in their order; the messages are the last call's
  std::size_t bytes_ = 0;
  std::size_t mail_at_ = 0;  // behind the last slot
  std::size_t mailbox_bytes_ = 0;
  std::uint32_t arrivals_ = 0;
  std::uint32_t operation_ = 0;
  Device* device_ = nullptr;  // of the team, which memory_ keeps
  WaitControl* control_ = nullptr;
  int turn_ = count - 1;
  int mail_turn_ = count - 1;
};

}  // namespace tandem
