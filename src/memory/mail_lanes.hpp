// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tandem/device/mailed_exchange.hpp"
#include "tandem/memory/symmetric_memory.hpp"

#include "memory/owners.hpp"

namespace tandem {

/// A plan's own mailboxes for small collectives in one kernel (MailedExchange documents the protocol): two for each
/// lane and pair of ranks.
class MailLanes {
 public:
  /// The default for the number of SMs that one exchange uses at most.
  static constexpr int most_lanes = 64;

  MailLanes() = default;
  /// Collective. For exchanges of up to `bytes` of each shard, on at most `lanes` SMs (and Team::resident_blocks),
  /// named `operation` in errors; requires a device that `exchanges_mail`. Waits for all members, and throws what
  /// SymmetricMemory's `allocate` and `rendezvous` throw.
  MailLanes(const Team& team, std::size_t bytes, int lanes, std::uint32_t operation);

  /// The most bytes of each shard in an exchange; 0: default-constructed.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// The number of SMs that an exchange uses at most.
  [[nodiscard]] std::size_t lanes() const noexcept { return lanes_; }
  /// Owners of the underlying memory.
  [[nodiscard]] Owners owners() const { return bytes_ == 0 ? Owners() : owners_of(memory_); }

  /// Runs an exchange. The caller sets the fields before `peers`; `length` is at least 1 element and at most `bytes()`.
  /// Every member of the team calls it, in the same order. Asynchronous and stream-ordered; its waits end and fail as
  /// SignalPad's do.
  void exchange(StreamRef stream, MailedExchange exchange) const;

 private:
  [[nodiscard]] std::size_t slice_bytes(std::size_t bytes) const noexcept;

  SymmetricMemory memory_;
  std::vector<PeerWords> peers_;
  std::size_t bytes_ = 0;
  std::size_t lanes_ = 0;
  std::size_t turn_pitch_ = 0;
  std::size_t packet_bytes_ = 0;  // an exchange of up to so many (to a peer) uses packets
  std::size_t packet_box_ = 0;
  std::uint32_t operation_ = 0;
};

}  // namespace tandem
