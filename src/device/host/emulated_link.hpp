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

  /// Takes the link for `bytes`, from now or from when it is free. Gives when they arrive (CLOCK_MONOTONIC, ns).
  [[nodiscard]] std::int64_t occupy(std::size_t bytes);
  /// Sleeps until then.
  static void sleep_until(std::int64_t when_ns) noexcept;

  [[nodiscard]] const LinkOptions& options() const noexcept { return options_; }

 private:
  const LinkOptions options_;
  std::mutex mutex_;
  std::int64_t free_at_ns_ = 0;
};

}  // namespace tandem
