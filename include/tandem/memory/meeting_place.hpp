// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/base/export.hpp"
#include "tandem/device/meeting.hpp"
#include "tandem/device/reduce.hpp"
#include "tandem/memory/symmetric_memory.hpp"

namespace tandem {

/// A plan's own words for what its ranks do on each other's symmetric tensors in one step of the device (see
/// Device::reduce_in_meeting).
class TANDEM_API MeetingPlace {
 public:
  /// As many blocks of 256 threads as one step has where nobody says otherwise. They may share multiprocessors.
  static constexpr int most_blocks = 128;

  MeetingPlace() = default;
  /// Collective. For steps on at most `blocks` multiprocessors, 1 at least (and Team::resident_blocks), named
  /// `operation` in errors; the device is one that `meets`. Waits for all members, and throws what SymmetricMemory's
  /// `allocate` and `rendezvous` throw.
  MeetingPlace(const Team& team, int blocks, std::uint32_t operation);

  [[nodiscard]] explicit operator bool() const noexcept { return blocks_ != 0; }
  /// What all this lies in (see SymmetricMemory::parts).
  [[nodiscard]] std::vector<std::shared_ptr<void>> parts() const {
    return blocks_ == 0 ? std::vector<std::shared_ptr<void>>() : memory_.parts();
  }

  /// Meets all peers, reduces, and meets them again: nobody's memory is read or written before, and nobody's will be
  /// behind. `most_bytes` is the largest rank's part of each operand. All ranks call it, in the same order.
  /// Asynchronous, in the stream's order; its waits end and fail as SignalPad's do.
  void reduce(StreamRef stream, const Reduction& reduction, std::size_t most_bytes) const;

 private:
  SymmetricMemory memory_;
  std::vector<PeerWords> peers_;
  int blocks_ = 0;
  std::uint32_t operation_ = 0;
};

}  // namespace tandem
