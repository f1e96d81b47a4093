// SPDX-License-Identifier: Apache-2.0
// The threads that run the work queued on the host's streams.
#include <atomic>
#include <csignal>
#include <ctime>
#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "device/on_device.hpp"

namespace tandem::testing {
namespace {

class HostWorkersTest : public OnDevice {};

// A program that receives signals by sigwait may block them only after it has queued its first work: a worker thread
// that does not block such a signal would then get it, and it would end the process.
TEST_P(HostWorkersTest, SignalsAreTheProgramsOwn) {
  std::vector<Stream> streams;
  std::atomic<int> ran = 0;
  for (int i = 0; i < 4; ++i) {
    streams.emplace_back(device());
    device().launch(streams.back(), [&ran] { ++ran; });
    device().flush(streams.back());
  }
  while (ran != 4) std::this_thread::yield();  // run by the device's own threads
  sigset_t one;
  sigset_t before;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &one, &before), 0);
  ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
  const timespec limit{.tv_sec = 10, .tv_nsec = 0};
  EXPECT_EQ(sigtimedwait(&one, nullptr, &limit), SIGUSR1);
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
}

INSTANTIATE_TEST_SUITE_P(Host, HostWorkersTest, ::testing::Values(DeviceType::host), type_name);

}  // namespace
}  // namespace tandem::testing
