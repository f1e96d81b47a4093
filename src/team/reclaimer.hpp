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

/// What the teams of one world let go of while queued work may still use it.
///
/// It is released only when nothing is found queued on the device: what one team waits for may hang on a call that its
/// caller has yet to make, so the release of another team's memory must not wait for it, and freeing memory on a
/// device may itself wait for all of the device's work.
class Reclaimer {
 public:
  Reclaimer(std::shared_ptr<Device> device, const Log& log) : device_(std::move(device)), log_(log) {}

  /// A handle that may outlive this: where its last copy goes, on any thread, `object` is handed to this list, without
  /// a call of the device. After `finish`, `object` stays for ever.
  [[nodiscard]] std::shared_ptr<void> deferred(std::shared_ptr<void> object) const;

  /// See Team::reclaim.
  void add(std::shared_ptr<void> object) noexcept;
  /// Releases everything if the device has nothing left to run within `limit`, else nothing.
  void collect(std::chrono::milliseconds limit) noexcept;
  /// Waits for the device, and a tenth of a second for handles of `deferred`, then releases everything. False if the
  /// device cannot be waited for: then nothing is released, ever.
  bool finish() noexcept;
  /// Leaves everything as it is, for ever: for a forked child, where what is queued never runs, and where the device's
  /// threads, which a release may need, are not there.
  void forget() noexcept;

 private:
  using Objects = std::list<std::shared_ptr<void>>;
  /// What handles of `deferred` need, and no more of the world than that.
  struct Shelf {
    std::mutex mutex;
    Objects objects;
    std::size_t deferred = 0;  ///< handles that have not come back
    bool closed = false;       ///< nobody will look here again
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
