// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tandem/base/export.hpp"
#include "tandem/device/copy.hpp"
#include "tandem/device/meeting.hpp"
#include "tandem/device/reduce.hpp"
#include "tandem/memory/symmetric_memory.hpp"

namespace tandem {

/// A plan's own words for what its ranks do on each other's symmetric tensors in one step of the device (see
/// Device::reduce_in_meeting, copy_in_meeting and spread_in_meeting), and memory for it, where the plan has none.
class TANDEM_API MeetingPlace {
 public:
  /// As many blocks of 256 threads as one step has where nobody says otherwise.
  static constexpr int most_blocks = 128;

  MeetingPlace() = default;
  /// Collective. For steps on at most `blocks` multiprocessors, 1 at least (and Team::resident_blocks), named
  /// `operation` in errors; the device is one that `meets`. With `bytes` of memory of each rank's. Waits for all
  /// members, and throws what SymmetricMemory's `allocate` and `rendezvous` throw.
  MeetingPlace(const Team& team, int blocks, std::uint32_t operation, std::size_t bytes = 0);

  [[nodiscard]] explicit operator bool() const noexcept { return blocks_ != 0; }
  /// On how many multiprocessors a step runs at most; 0: none was made.
  [[nodiscard]] int blocks() const noexcept { return blocks_; }
  /// The memory of a rank of the team, where this one reaches it.
  [[nodiscard]] std::byte* memory(int rank) const { return memory_.remote(rank); }
  /// What all this lies in (see SymmetricMemory::parts).
  [[nodiscard]] std::vector<std::shared_ptr<void>> parts() const {
    return blocks_ == 0 ? std::vector<std::shared_ptr<void>>() : memory_.parts();
  }

  // Meets all peers, works, and meets them again: nobody's memory is read or written before, and nobody's will be
  // behind. `most_bytes` is the largest rank's part of each operand, or longest copy. All ranks call the same, in the
  // same order, with equal `most_bytes` and, of a reduction, `peer_destinations`: a block meets the peers' of its
  // number. Asynchronous, in the stream's order; its waits end and fail as SignalPad's do.

  void reduce(StreamRef stream, const Reduction& reduction, std::size_t most_bytes) const;
  void copy(StreamRef stream, std::span<const Copy> copies, std::size_t most_bytes) const;
  /// From a place of this rank's own, which may be read before.
  void spread(StreamRef stream, const Spread& spread, std::size_t most_bytes) const;

 private:
  /// Of which there are `filling` where that suffices for the links.
  [[nodiscard]] MeetingBlocks blocks_for(std::size_t most_bytes, std::size_t filling) const;

  SymmetricMemory memory_;
  std::vector<PeerWords> peers_;
  int blocks_ = 0;
  std::uint32_t operation_ = 0;
};

}  // namespace tandem
