// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>

#include "tandem/base/log.hpp"
#include "tandem/device/device.hpp"

namespace tandem {

/// Owns what the teams of one world no longer need but queued work may still use.
///
/// It is released only when the device is found idle. Freeing device memory may itself wait for all of the device's
/// work, and a wait that one team has queued may depend on a call that its caller has not made yet: releasing another
/// team's memory must not wait for that.
class Reclaimer {
 public:
  Reclaimer(std::shared_ptr<Device> device, const Log& log) : device_(std::move(device)), log_(log) {}

  /// A handle that may outlive this. When its last copy is destroyed, on any thread, `object` is added to this list,
  /// without calling the device. After `finish` it is instead never released.
  [[nodiscard]] std::shared_ptr<void> deferred(std::shared_ptr<void> object) const;

  /// See Team::reclaim.
  void add(std::shared_ptr<void> object) noexcept;
  /// Releases everything if the device becomes idle within `limit`, else nothing.
  void collect(std::chrono::milliseconds limit) noexcept;
  /// Waits for the device, and up to 0.1 s for handles of `deferred`, then releases everything. False if waiting for
  /// the device failed: then nothing is ever released.
  bool finish() noexcept;
  /// Never releases anything: for a forked child, which has neither the queued work nor the device's threads, which a
  /// release may need.
  void forget() noexcept;

 private:
  using Objects = std::list<std::shared_ptr<void>>;
  /// The part that handles of `deferred` share and keep alive, so that they do not keep the world alive.
  struct Shelf {
    std::mutex mutex;
    Objects objects;
    std::size_t deferred = 0;  ///< handles that still exist
    bool closed = false;       ///< after `finish`: nothing added would be released
  };
  class Deferred;

  [[nodiscard]] bool is_empty() noexcept;
  void wait_for_deferred() noexcept;
  [[nodiscard]] Objects take() noexcept;
  [[nodiscard]] bool is_idle(std::chrono::milliseconds limit) noexcept;
  /// False if the device has failed: then nothing may be released.
  [[nodiscard]] bool wait_until_idle() noexcept;
  static void keep_for_ever(Objects&& objects) noexcept;

  std::shared_ptr<Device> device_;
  const Log& log_;
  std::shared_ptr<Shelf> shelf_ = std::make_shared<Shelf>();
};

}  // namespace tandem
