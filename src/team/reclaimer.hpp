// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include "tandem/base/log.hpp"
#include "tandem/device/device.hpp"

namespace tandem {

/// What the teams of one world let go of while queued work may still use it.
///
/// It is released only when nothing is found queued on the device: what one team waits for may hang on a call that its
/// caller has yet to make, so the release of another team's memory must not wait for it, and freeing memory on a
/// device may itself wait for all of the device's work.
class Reclaimer {
 public:
  Reclaimer(std::shared_ptr<Device> device, const Log& log) : device_(std::move(device)), log_(log) {}

  /// See Team::reclaim. Without memory for the list, waits for the device.
  void add(std::function<void()>&& release) noexcept;
  /// Releases everything if the device has nothing left to run within `limit`, else nothing.
  void collect(std::chrono::milliseconds limit) noexcept;
  /// Waits for the device, then releases everything; if the device has failed, nothing ever.
  void finish() noexcept;
  /// Leaves everything as it is, for ever: for a forked child, where what is queued never runs, and where the device's
  /// threads, which a release may need, are not there.
  void forget() noexcept;

 private:
  using Releases = std::list<std::function<void()>>;
  [[nodiscard]] Releases take() noexcept;
  [[nodiscard]] bool is_idle(std::chrono::milliseconds limit) noexcept;
  /// False if the device has failed: then nothing may be released.
  [[nodiscard]] bool wait_until_idle() noexcept;
  void run(const Releases& releases) noexcept;
  static void keep_for_ever(Releases&& releases) noexcept;

  std::shared_ptr<Device> device_;
  const Log& log_;
  std::mutex mutex_;
  Releases releases_;
};

}  // namespace tandem
