// SPDX-License-Identifier: Apache-2.0
// The threads that run the work queued on the host's streams.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <ctime>
#include <gtest/gtest.h>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tandem/base/error.hpp"

#include "device/with_control.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;

class HostWorkersTest : public WithControl {
 protected:
  /// Begins work on `stream` that ends when `go` is set, and returns once it runs.
  void occupy_a_thread(const Stream& stream, const std::atomic<bool>& go) const {
    std::atomic<bool> runs = false;
    device().launch(stream, [&] {
      runs = true;
      while (!go) std::this_thread::sleep_for(1ms);
    });
    device().flush(stream);
    EXPECT_TRUE(comes_true(runs));
  }
  /// Has the device start its own threads: the first work of any stream does.
  void start_threads(const Stream& stream, SignalWord& unused) const {
    const SignalPut put{.mine = &unused, .theirs = &unused};
    device().signal(stream, {&put, 1});
    stream.synchronize();
  }
  /// Has a thread wait on `stream` for a signal of rank 1 on channel 7.
  void occupy_by_wait(const Stream& stream, SignalWord& word) const {
    const SignalWait wait{.word = &word, .peer = 1, .channel = 7};
    device().wait(stream, {&wait, 1}, control_);
    device().flush(stream);
  }
  /// Waits for what the device's own threads do, draining no stream itself.
  [[nodiscard]] static bool comes_true(const std::atomic<bool>& flag) {
    for (int i = 0; i < 20'000 && !flag; ++i) std::this_thread::sleep_for(1ms);
    return flag;
  }
};

/// While it lives, the system refuses this process any thread, whoever runs it: there is no room for its stack.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
    pthread_attr_t huge;
    EXPECT_EQ(pthread_attr_init(&huge), 0);
    EXPECT_EQ(pthread_attr_setstacksize(&huge, std::size_t{1} << 50U), 0);
    EXPECT_EQ(pthread_setattr_default_np(&huge), 0);
    pthread_attr_destroy(&huge);
  }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;
  ~NoMoreThreads() {
    EXPECT_EQ(pthread_setattr_default_np(&before_), 0);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
};

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

TEST_P(HostWorkersTest, ThePacemakerStandsInForARefusedThread) {
  std::atomic<bool> go = false;
  std::atomic<bool> ran = false;
  Stream first(device());
  occupy_a_thread(first, go);
  {
    const NoMoreThreads refused;
    for (int i = 0; i < 3; ++i) {  // also once it has stood in before, and has slept since
      ran = false;
      Stream second(device());
      device().launch(second, [&] { ran = true; });
      device().flush(second);
      EXPECT_TRUE(comes_true(ran)) << i;
      std::this_thread::sleep_for(20ms);
    }
  }
  go = true;
  first.synchronize();
}

TEST_P(HostWorkersTest, LightWorkIsNotForgottenWhileThePacemakerStandsIn) {
  std::atomic<bool> worker_may_go = false;
  std::atomic<bool> pacemaker_may_go = false;
  Stream first(device());
  Stream second(device());
  Stream third(device());
  SignalWord word{};
  const SignalPut put{.mine = &word, .theirs = &word};
  start_threads(first, word);
  const NoMoreThreads refused;
  occupy_a_thread(first, worker_may_go);
  occupy_a_thread(second, pacemaker_may_go);
  device().signal(third, {&put, 1});
  std::this_thread::sleep_for(20ms);
  const auto count = [&word] { return std::atomic_ref(word.value).load(); };
  EXPECT_EQ(count(), 1U);  // no thread is left
  worker_may_go = true;
  for (int i = 0; i < 20'000 && count() == 1; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(count(), 2U);
  pacemaker_may_go = true;
  for (Stream* const stream : {&first, &second, &third}) stream->synchronize();  // then nothing uses `word`
}

TEST_P(HostWorkersTest, AWaitAsksAgainForARefusedThread) {
  SignalWord words[3] = {};
  Stream first(device());
  Stream second(device());
  Stream third(device());
  start_threads(first, words[2]);
  {
    const NoMoreThreads refused;
    occupy_by_wait(first, words[0]);
    occupy_by_wait(second, words[1]);
    const std::vector<SignalPut> puts = {{.mine = &words[2], .theirs = &words[0]},
                                         {.mine = &words[2], .theirs = &words[1]}};
    device().signal(third, puts, control_);
    device().flush(third);
    std::this_thread::sleep_for(20ms);
    EXPECT_FALSE(first.query());
  }
  for (Stream* const stream : {&first, &second, &third}) EXPECT_NO_THROW(stream->synchronize());
  EXPECT_EQ(control_->abort, 0U);
}

// Two threads, both of which wait for what only a third could send.
TEST_P(HostWorkersTest, AStallWithoutThreadsIsNotThePeersFault) {
  control_->timeout_ns = 300'000'000;
  SignalWord words[3] = {};
  Stream first(device());
  Stream second(device());
  Stream third(device());
  start_threads(first, words[2]);
  const NoMoreThreads refused;
  occupy_by_wait(first, words[0]);
  occupy_by_wait(second, words[1]);
  device().signal(third, std::vector<SignalPut>{{.mine = &words[2], .theirs = &words[0]}}, control_);
  device().flush(third);
  while (!first.query() || !second.query()) std::this_thread::sleep_for(1ms);
  // Whichever of the two ends first frees its thread for the third, whose signal may still come before first's
  // deadline.
  expect_error<DeviceError>([&] { second.synchronize(); },
                            {"no thread to 1 of its streams", "0 of 1 signals of rank 1", "channel 7"});
  EXPECT_EQ(control_->failed, 2U);
  EXPECT_EQ(control_->failure.threw, 1U);
  EXPECT_NE(device().describe().find("short of threads"), std::string::npos) << device().describe();
  third.synchronize();  // then nothing uses `words`
}

INSTANTIATE_TEST_SUITE_P(Host, HostWorkersTest, ::testing::Values(DeviceType::host), type_name);

}  // namespace
}  // namespace tandem::testing
