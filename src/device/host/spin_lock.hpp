// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "device/host/core_offer.hpp"

namespace tandem {

/// A lock for short, rarely contended critical sections: an uncontended one costs half as much as with a std::mutex. A
/// thread that finds it taken offers its core, since the holder may need it to continue; in the end it sleeps, since an
/// offer does not let a holder of lower priority run.
class SpinLock {
 public:
  void lock() noexcept {
    for (int offers = 0; taken_.test_and_set(std::memory_order_acquire); ++offers) {
      offers < most_offers ? offer_core() : std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  void unlock() noexcept { taken_.clear(std::memory_order_release); }

 private:
  static constexpr int most_offers = 100;
  std::atomic_flag taken_;
};

}  // namespace tandem
