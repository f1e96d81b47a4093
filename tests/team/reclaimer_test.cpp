// SPDX-License-Identifier: Apache-2.0
#include "team/reclaimer.hpp"

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <thread>
#include <utility>

#include "tandem/base/log.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/stream.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

class ReclaimerTest : public ::testing::Test {
 protected:
  const Log log_;
  const std::shared_ptr<Device> device_ = open_device({DeviceType::host, 0});
  Reclaimer reclaimer_{device_, log_};
};

TEST_F(ReclaimerTest, ReleasesWhenTheDeviceHasNothingToDo) {
  const Stream stream(*device_);
  std::atomic<bool> go_on = false;
  device_->launch(stream, [&] {
    while (!go_on) std::this_thread::sleep_for(1ms);
  });
  int released = 0;
  reclaimer_.add(std::shared_ptr<void>(&released, [&](void*) { ++released; }));
  reclaimer_.collect(5ms);
  EXPECT_EQ(released, 0);
  go_on = true;
  stream.synchronize();
  reclaimer_.collect(1s);
  EXPECT_EQ(released, 1);
  reclaimer_.finish();
  EXPECT_EQ(released, 1);
}

TEST_F(ReclaimerTest, WhatIsDeferredComesWithItsLastHandle) {
  auto object = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = object;
  std::shared_ptr<void> handle = reclaimer_.deferred(std::move(object));
  std::shared_ptr<void> copy = handle;
  handle.reset();
  reclaimer_.collect(1s);
  EXPECT_FALSE(watched.expired()) << "a handle still holds it";
  std::thread([&] { copy.reset(); }).join();  // as a graph does: on a driver thread
  EXPECT_FALSE(watched.expired()) << "who drops the last handle must not release anything";
  reclaimer_.collect(1s);
  EXPECT_TRUE(watched.expired());
}

// As when a graph is destroyed, and then its world, while the graph's last launch is still running.
TEST_F(ReclaimerTest, TheEndWaitsForWhatQueuedWorkHolds) {
  auto object = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = object;
  const Stream stream(*device_);
  device_->launch(stream, [handle = reclaimer_.deferred(std::move(object))]() mutable {
    std::this_thread::sleep_for(30ms);
    handle.reset();
  });
  reclaimer_.finish();
  EXPECT_TRUE(watched.expired());
}

TEST_F(ReclaimerTest, WhatIsDeferredBeyondTheEndStaysForEver) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer would take it for a leak";
#endif
  const auto kept = std::make_shared<int>(1);
  std::shared_ptr<void> handle = reclaimer_.deferred(kept);
  reclaimer_.finish();
  handle.reset();
  reclaimer_.collect(1s);
  EXPECT_EQ(kept.use_count(), 2);
}

}  // namespace
}  // namespace tandem
