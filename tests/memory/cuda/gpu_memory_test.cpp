// SPDX-License-Identifier: Apache-2.0
// Checks that a test fails if its ranks leave anything allocated in GPU memory.
#include "support/gpu_memory.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tandem/device/buffer.hpp"
#include "tandem/device/device.hpp"

#include "support/devices.hpp"
#include "support/processes.hpp"
#include "support/shared.hpp"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;

class GpuMemory : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (IsSkipped()) return;
    if (const GpuMemoryWatch watch; !watch.why_blind().empty()) GTEST_SKIP() << watch.why_blind();
  }
};

/// A separate process that holds memory of the first GPU until it is told to end. It is not killed, since that might
/// take down CUDA's Multi-Process Service (MPS).
class Holder {
 public:
  /// Forks the process.
  void start() {
    const pid_t child = ::fork();
    if (child != 0) {
      state_->pid = child;
      return;
    }
    {
      const Buffer buffer(open_device({DeviceType::cuda, 0}), std::size_t{64} << 20);
      state_->holds = true;
      for (int i = 0; i < 6000 && !state_->ends; ++i) ::usleep(10'000);
    }
    ::_exit(0);
  }
  void expect_to_hold() const {
    for (int i = 0; i < 3000 && !state_->holds; ++i) ::usleep(10'000);
    EXPECT_TRUE(state_->holds);
  }
  void end() const {
    state_->ends = true;
    const pid_t pid = state_->pid;
    for (int i = 0; i < 1000 && state_of(pid) != 'Z' && state_of(pid) != 0; ++i) ::usleep(10'000);
    ::waitpid(pid, nullptr, WNOHANG);  // reaps it if it is this process's child
  }

 private:
  struct State {
    std::atomic<pid_t> pid;
    std::atomic<bool> holds;
    std::atomic<bool> ends;
  };
  Shared<State> state_;
};

TEST_P(GpuMemory, WhatAProcessHoldsIsSeenUntilItEnds) {
  Holder holder;
  const GpuMemoryWatch watch;
  EXPECT_EQ(watch.left(0ms), "");
  holder.start();
  holder.expect_to_hold();
  const std::string held = watch.left(0ms);
  EXPECT_NE(held.find(" of GPU "), std::string::npos) << held;
  EXPECT_NE(held.find(" are still in use"), std::string::npos) << held;
  holder.end();
  EXPECT_EQ(watch.left(5s), "");
}

TEST_P(GpuMemory, RanksThatLeaveSomethingFailTheirTest) {
  Holder holder;
  RankOptions options{.device = DeviceType::cuda};
  options.before_init = [&](int rank) {
    if (rank == 0) holder.start();
  };
  const auto body = [&](World& /*world*/) { holder.expect_to_hold(); };
  EXPECT_NONFATAL_FAILURE(run_ranks(2, body, options), "are still in use");
  holder.end();
  run_ranks(2, [](World& /*world*/) {}, {.device = DeviceType::cuda});
}

INSTANTIATE_TEST_SUITE_P(Device, GpuMemory, ::testing::Values(DeviceType::cuda), device_name);

}  // namespace
}  // namespace tandem::testing
