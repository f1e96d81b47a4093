// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/device/copy.hpp"
#include "tandem/device/meeting.hpp"
#include "tandem/device/reduce.hpp"
#include "tandem/memory/symmetric_memory.hpp"

#include "memory/owners.hpp"

namespace tandem {

/// A plan's own signal words for kernels that work on the ranks' symmetric tensors and synchronize with the peers' (see
/// Device::reduce_in_meeting, copy_in_meeting and spread_in_meeting), and optional symmetric memory for them.
class MeetingPlace {
 public:
  /// The default and upper limit of the number of blocks (of 256 threads) in one kernel.
  static constexpr int most_blocks = 128;

  MeetingPlace() = default;
  /// Collective. For kernels on at most `blocks` SMs (1 or more; also limited by `most_blocks` and
  /// Team::resident_blocks), named `operation` in errors; requires a device that `meets`. `bytes`: memory of each rank.
  /// Waits for all members, and throws what SymmetricMemory's `allocate` and `rendezvous` throw.
  MeetingPlace(const Team& team, int blocks, std::uint32_t operation, std::size_t bytes = 0);

  [[nodiscard]] explicit operator bool() const noexcept { return blocks_ != 0; }
  /// The number of SMs that a kernel uses at most; 0: default-constructed.
  [[nodiscard]] int blocks() const noexcept { return blocks_; }
  /// The memory of the team's rank `rank`, as mapped here.
  [[nodiscard]] std::byte* memory(int rank) const { return memory_.remote(rank); }
  /// Owners of the underlying memory.
  [[nodiscard]] Owners owners() const { return blocks_ == 0 ? Owners() : owners_of(memory_); }

  // Each synchronizes with all peers, works, and synchronizes again: ranks access each other's memory only in between.
  // `most_bytes` is the size of the largest rank's part of each operand, or of the longest copy. Every member makes the
  // same calls in the same order, with equal `most_bytes` and, for a reduction, `peer_destinations`, since each block
  // synchronizes with the peers' same block. Asynchronous and stream-ordered; waits end and fail as SignalPad's do.

  void reduce(StreamRef stream, const Reduction& reduction, std::size_t most_bytes) const;
  void copy(StreamRef stream, std::span<const Copy> copies, std::size_t most_bytes) const;
  /// The source is this rank's own memory, which may be read before the first synchronization.
  void spread(StreamRef stream, const Spread& spread, std::size_t most_bytes) const;

 private:
  /// `filling` is the number of blocks that fills the links, which large operands exceed and small ones stay below.
  [[nodiscard]] MeetingBlocks blocks_for(std::size_t most_bytes, std::size_t filling) const;

  SymmetricMemory memory_;
  std::vector<PeerWords> peers_;
  int blocks_ = 0;
  std::uint32_t operation_ = 0;
};

}  // namespace tandem
