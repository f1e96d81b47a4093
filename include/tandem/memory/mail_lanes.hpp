// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/base/export.hpp"
#include "tandem/device/mailed_sum.hpp"
#include "tandem/memory/symmetric_memory.hpp"

namespace tandem {

/// A plan's own mailboxes for sums over all ranks in one step of the device (see MailedSum, which has the protocol):
/// two for each lane and each pair of ranks.
class TANDEM_API MailLanes {
 public:
  MailLanes() = default;
  /// Collective. For sums of up to `bytes`, named `operation` in errors; the device is one that `sums_mail`. Waits for
  /// all members, and throws what SymmetricMemory's `allocate` and `rendezvous` throw.
  MailLanes(const Team& team, std::size_t bytes, std::uint32_t operation);

  /// Of one sum at most; 0: none was made.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// What all this lies in (see SymmetricMemory::parts).
  [[nodiscard]] std::vector<std::shared_ptr<void>> parts() const { return memory_.parts(); }

  /// out = Σ input over all ranks, in rank order; at most `bytes()`, and 1 element at least. All ranks call it, in the
  /// same order. Asynchronous, in the stream's order; its waits end and fail as SignalPad's do.
  void sum(StreamRef stream, const void* input, void* out, std::int64_t count, DType dtype) const;

 private:
  SymmetricMemory memory_;
  std::vector<MailPeer> peers_;
  std::size_t bytes_ = 0;
  std::size_t turn_pitch_ = 0;
  std::uint32_t operation_ = 0;
};

}  // namespace tandem
