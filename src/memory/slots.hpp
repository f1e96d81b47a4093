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

#include "memory/owners.hpp"

namespace tandem {

/// A plan's own symmetric memory: two slots, so that consecutive runs overlap, each with its own credits and arrival
/// signals.
///
/// The protocol is the same for pushes (a writer writes a peer's slot) and pulls (a writer writes its own slot, and
/// peers read it):
///   writer:  take(readers) → write → signal(reader, arrival)
///   reader:  wait(writer, arrival) → read → grant(writers)
/// Each pair of ranks starts with one credit for each slot in each direction. A run that takes a reader's credit
/// signals it once for each part that it writes; the reader waits once for each part, and grants once after the last:
/// so counts agree in whatever order captured and eager runs are mixed. A plan that keeps a slot beyond a captured run
/// (AllGatherLinear) grants it early, and more than once: all its runs begin with an `exchange` that replaces the
/// credits.
///
/// Instead of copying into its slot, a rank may lend data in its private memory to its peers, which read it with a
/// single copy, if the system allows that:
///   lender:  lend(arrival) → … → wait until every peer has signaled that it has read
///   reader:  wait(lender, arrival) → fetch → signal that it has read
///
/// Short messages between all ranks may be sent as mail: each rank writes a message into one of two mailboxes on each
/// peer, alternately, and waits for one from each:
///   every rank:  mail(messages, what to do with the messages at `mailed`)
/// No credits are granted: a rank that overwrites a mailbox has received every peer's next message, which a peer sends
/// only after reading the previous one. So a rank without data for a peer sends an empty one (see MailedExchange).
class TANDEM_API Slots {
 public:
  static constexpr int count = 2;

  struct Message {
    const void* data = nullptr;
    std::size_t bytes = 0;
  };

  Slots() = default;
  /// Collective. Each slot has `bytes`, and `arrivals` arrival signals from each peer; mail is up to `mail_bytes` to
  /// each peer. Named `operation` in errors. Waits for all members, and throws what SymmetricMemory's `allocate` and
  /// `rendezvous` and Team::synchronize throw.
  Slots(const Team& team, std::size_t bytes, std::uint32_t arrivals, std::uint32_t operation,
        std::size_t mail_bytes = 0);

  /// The slot of the next run: 0 and 1 alternate, equally on all ranks.
  [[nodiscard]] int next() noexcept {
    turn_ = (turn_ + 1) % count;
    return turn_;
  }
  /// This rank's slot, and the same slot of the team's rank `rank`. Not checked: the slot must come from `next`, and
  /// the rank must be in the team.
  [[nodiscard]] std::byte* local(int slot) const { return remote(slot, memory_.team().rank()); }
  [[nodiscard]] std::byte* remote(int slot, int rank) const {
    return remotes_[static_cast<std::size_t>(rank)] + static_cast<std::size_t>(slot) * bytes_;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Owners of the underlying memory.
  [[nodiscard]] Owners owners() const { return owners_of(memory_); }
  /// All other ranks in cyclic order from the next one: visiting peers in it, no two ranks use the same peer at once.
  [[nodiscard]] std::span<const int> peers() const noexcept { return peers_; }

  // The steps of the protocol above. Asynchronous and stream-ordered; waits end and fail as SignalPad's do. Ranks are
  // checked (InvalidArgument); slots must come from `next`, and an arrival must be below `arrivals`.

  void take(StreamRef stream, int slot, std::span<const int> readers) const;
  /// `take`, which also counts in advance one signal to each reader for each of the `many` arrivals from `arrival` on,
  /// all below `arrivals`; they must be put later by `signal_counted`, or as a `signal_to` with `counted` set.
  void take_and_count(StreamRef stream, int slot, std::span<const int> readers, std::uint32_t arrival,
                      std::uint32_t many = 1) const;
  void signal(StreamRef stream, int slot, std::span<const int> readers, std::uint32_t arrival) const;
  void signal_counted(StreamRef stream, int slot, std::span<const int> readers, std::uint32_t arrival) const;
  /// `signal` for one reader, for a caller that queues it together with the copy (Device::push).
  [[nodiscard]] SignalPut signal_to(int slot, int reader, std::uint32_t arrival) const {
    return pad_.signal_to(reader, channel(slot, 1 + arrival));
  }
  void wait(StreamRef stream, int slot, std::span<const int> writers, std::uint32_t arrival) const;
  /// `signal` to all peers, then `wait` for all peers (see SignalPad::exchange_signals).
  void exchange(StreamRef stream, int slot, std::uint32_t arrival) const {
    pad_.exchange_signals(stream, peers_, channel(slot, 1 + arrival));
  }
  void grant(StreamRef stream, int slot, std::span<const int> writers) const;

  /// Lends the memory that begins at `memory` to all peers, and signals it as slot 0's `arrival`. Only for a team whose
  /// ranks can read each other's private memory (see why_no_loans).
  void lend(StreamRef stream, const void* memory, std::uint32_t arrival) const;
  /// Reads `bytes` at `offset` of what `lender` lent with `arrival`. Does nothing for 0 bytes.
  void fetch(StreamRef stream, int lender, std::uint32_t arrival, std::size_t offset, void* to,
             std::size_t bytes) const;

  /// Switches to the mailboxes of the next `mail`.
  void next_mail() noexcept { mail_turn_ = (mail_turn_ + 1) % count; }
  /// Where the message of the peer `rank` is, in stream order: from the next `mail` on, until `next_mail` is called
  /// again.
  [[nodiscard]] const std::byte* mailed(int rank) const {
    return mailbox(mail_turn_, memory_.team().rank(), rank) + mail_offset;
  }
  /// Sends every peer a message, waits for one from each, and sums or copies them as `use` says; `message_for(rank)` is
  /// the message to that peer. Call it once per `next_mail`. Stream-ordered; only for a device that `sends_letters`.
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
  /// Where `owner` receives mail from `writer`.
  [[nodiscard]] std::byte* mailbox(int turn, int owner, int writer) const {
    const auto place = static_cast<std::size_t>(turn) * remotes_.size() + static_cast<std::size_t>(writer);
    return remote(count, owner) + mail_at_ + place * mailbox_bytes_;
  }
  [[nodiscard]] std::uint32_t channel(int slot, std::uint32_t which) const noexcept {
    return static_cast<std::uint32_t>(slot) * (arrivals_ + 1) + which;
  }
  [[nodiscard]] Loan* loan(int rank, std::uint32_t arrival) const {
    return reinterpret_cast<Loan*>(remote(count, rank)) + arrival;  // after the last slot
  }

  SymmetricMemory memory_;
  SignalPad pad_;
  std::vector<std::byte*> remotes_;
  std::vector<int> peers_;
  std::array<std::vector<Letter>, count> letters_;  // to each peer, in order of `peers`; messages are the last call's
  std::size_t bytes_ = 0;
  std::size_t mail_at_ = 0;  // offset of mail after the last slot
  std::size_t mailbox_bytes_ = 0;
  std::uint32_t arrivals_ = 0;
  std::uint32_t operation_ = 0;
  Device* device_ = nullptr;  // the team's, kept alive by memory_
  WaitControl* control_ = nullptr;
  int turn_ = count - 1;
  int mail_turn_ = count - 1;
};

}  // namespace tandem
