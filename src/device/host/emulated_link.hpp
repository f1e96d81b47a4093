// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "tandem/base/env.hpp"

namespace tandem {

/// One rank's outgoing link to its peers, used by one transfer at a time: a transfer occupies it for bytes / bandwidth
/// and arrives `latency` after that. Waiting for the arrival is a sleep, so that the cores can compute concurrently, as
/// with a copy engine.
class EmulatedLink {
 public:
  explicit EmulatedLink(const LinkOptions& options) : options_(options) {}

  /// Makes a stream's transfers follow each other as a copy engine's would, however late the thread that emulates it
  /// wakes: that delay is the machine's, not the link's. Accessed only by tasks of the stream.
  struct Pace {
    std::int64_t woke_ns = 0;  ///< when the thread resumed after the last transfer
    std::int64_t late_ns = 0;  ///< how long after the transfer's arrival that was
  };
  /// What a task sends over the link, recorded when it is queued. If `link` is null, nothing waits.
  struct Transfer {
    EmulatedLink* link = nullptr;
    Pace* pace = nullptr;
    std::size_t bytes = 0;
    std::int64_t queued_ns = 0;

    /// When the transfer begins if the link is free. Called by its task once that runs.
    [[nodiscard]] std::int64_t ready_ns() const noexcept;
  };
  class Crossing;

  /// For a task that is queued now on the stream to which `pace` belongs.
  [[nodiscard]] Transfer transfer(Pace& pace, std::size_t bytes) noexcept;

  [[nodiscard]] const LinkOptions& options() const noexcept { return options_; }

 private:
  /// Occupies the link from `ready_ns`, or from when it is free. Returns the arrival time. CLOCK_MONOTONIC, in ns.
  [[nodiscard]] std::int64_t occupy(std::size_t bytes, std::int64_t ready_ns);

  const LinkOptions options_;
  std::mutex mutex_;
  std::int64_t free_at_ns_ = 0;
};

/// A transfer in progress: the constructor begins it, the destructor sleeps until it has arrived. The bytes are copied
/// in between.
class EmulatedLink::Crossing {
 public:
  explicit Crossing(const Transfer& transfer)
      : Crossing(transfer, transfer.bytes, transfer.link != nullptr ? transfer.ready_ns() : 0) {}
  /// For one of several transfers that become ready together: `bytes` of them, after those constructed earlier.
  Crossing(const Transfer& transfer, std::size_t bytes, std::int64_t ready_ns);
  ~Crossing();
  Crossing(const Crossing&) = delete;
  Crossing& operator=(const Crossing&) = delete;

 private:
  Pace* pace_ = nullptr;
  std::int64_t arrival_ns_ = 0;
};

}  // namespace tandem
