// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "tandem/base/env.hpp"

namespace tandem {

/// One rank's way out to its peers, which lets one transfer through at a time: a transfer holds it for bytes /
/// bandwidth, and arrives `latency` after that. The wait is a sleep, so that the cores compute meanwhile, as beside a
/// copy engine.
class EmulatedLink {
 public:
  explicit EmulatedLink(const LinkOptions& options) : options_(options) {}

  /// A stream's transfers begin one after the other as a copy engine's would, however late the thread that stands for
  /// it wakes: that is this machine's lateness, not the link's. Only tasks of the stream touch it.
  struct Pace {
    std::int64_t woke_ns = 0;  ///< when the thread went on after the last transfer
    std::int64_t late_ns = 0;  ///< how long that was after the arrival
  };
  /// What a task is to carry over, noted when it was queued. No link (null): nothing waits.
  struct Transfer {
    EmulatedLink* link = nullptr;
    Pace* pace = nullptr;
    std::size_t bytes = 0;
    std::int64_t queued_ns = 0;

    /// When it may set out, for the task that is to carry it and has begun.
    [[nodiscard]] std::int64_t ready_ns() const noexcept;
  };
  class Crossing;

  /// For a task that is queued now on the stream that `pace` is of.
  [[nodiscard]] Transfer transfer(Pace& pace, std::size_t bytes) noexcept;

  [[nodiscard]] const LinkOptions& options() const noexcept { return options_; }

 private:
  /// Takes the link from `ready_ns` or from when it is free. Gives when the bytes arrive. CLOCK_MONOTONIC, in ns.
  [[nodiscard]] std::int64_t occupy(std::size_t bytes, std::int64_t ready_ns);

  const LinkOptions options_;
  std::mutex mutex_;
  std::int64_t free_at_ns_ = 0;
};

/// A transfer under way: begins with this object, and its end sleeps until all has arrived. What moves the bytes goes
/// between.
class EmulatedLink::Crossing {
 public:
  explicit Crossing(const Transfer& transfer)
      : Crossing(transfer, transfer.bytes, transfer.link != nullptr ? transfer.ready_ns() : 0) {}
  /// For one of several that set out together: `bytes` of them, behind those that did before.
  Crossing(const Transfer& transfer, std::size_t bytes, std::int64_t ready_ns);
  ~Crossing();
  Crossing(const Crossing&) = delete;
  Crossing& operator=(const Crossing&) = delete;

 private:
  Pace* pace_ = nullptr;
  std::int64_t arrival_ns_ = 0;
};

}  // namespace tandem
