// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/base/export.hpp"
#include "tandem/device/mailed_exchange.hpp"
#include "tandem/memory/symmetric_memory.hpp"

namespace tandem {

/// A plan's own mailboxes for small collectives in one step of the device (see MailedExchange, which has the protocol):
/// two for each lane and each pair of ranks.
class TANDEM_API MailLanes {
 public:
  /// As many multiprocessors as one exchange takes where nobody says otherwise.
  static constexpr int most_lanes = 64;

  MailLanes() = default;
  /// Collective. For exchanges that take up to `bytes` of each shard, on at most `lanes` multiprocessors (and
  /// Team::resident_blocks), named `operation` in errors; the device is one that `exchanges_mail`. Waits for all
  /// members, and throws what SymmetricMemory's `allocate` and `rendezvous` throw.
  MailLanes(const Team& team, std::size_t bytes, int lanes, std::uint32_t operation);

  /// Of each shard at most; 0: none was made.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// On how many multiprocessors an exchange runs at most.
  [[nodiscard]] std::size_t lanes() const noexcept { return lanes_; }
  /// What all this lies in (see SymmetricMemory::parts).
  [[nodiscard]] std::vector<std::shared_ptr<void>> parts() const {
    return bytes_ == 0 ? std::vector<std::shared_ptr<void>>() : memory_.parts();
  }

  /// Runs an exchange, of which the caller says what comes in front of `peers`; its `length` is at most `bytes()`, and
  /// 1 element at least. All ranks call it, in the same order. Asynchronous, in the stream's order; its waits end and
  /// fail as SignalPad's do.
  void exchange(StreamRef stream, MailedExchange exchange) const;

 private:
  [[nodiscard]] std::size_t slice_bytes(std::size_t bytes) const noexcept;

  SymmetricMemory memory_;
  std::vector<PeerWords> peers_;
  std::size_t bytes_ = 0;
  std::size_t lanes_ = 0;
  std::size_t turn_pitch_ = 0;
  std::size_t packet_bytes_ = 0;  // up to here (to a peer) an exchange goes in packets
  std::size_t packet_box_ = 0;
  std::uint32_t operation_ = 0;
};

}  // namespace tandem
