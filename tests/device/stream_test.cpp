// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/stream.hpp"

#include <atomic>
#include <gtest/gtest.h>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/event.hpp"
#include "tandem/device/gemm.hpp"

#include "device/on_device.hpp"
#include "device/registered.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;

class StreamTest : public OnDevice {};

TEST_P(StreamTest, RunsWhatIsQueuedInOrder) {
  Stream stream(device());
  std::vector<int> seen;
  for (int i = 0; i < 1000; ++i) device().launch(stream, [&seen, i] { seen.push_back(i); });
  stream.synchronize();
  ASSERT_EQ(seen.size(), 1000U);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(seen[static_cast<std::size_t>(i)], i);
}

TEST_P(StreamTest, RunsWithoutAnybodyWaiting) {
  Stream stream(device());
  std::atomic<bool> ran{false};
  device().launch(stream, [&ran] { ran.store(true); });
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (!ran.load() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(ran.load());
  stream.synchronize();
  EXPECT_TRUE(stream.query());
}

TEST_P(StreamTest, SmallWorkRunsWithoutAnybodyWaiting) {
  // A signal is light work, for which the host does not wake a worker at once.
  const Registered<SignalWord> page(device_, 2);
  SignalWord* const words = page.data();
  Stream stream(device());
  for (std::uint64_t round = 1; round <= 20; ++round) {
    const SignalPut put{.mine = &words[0], .theirs = &words[1]};
    device().signal(stream, {&put, 1});
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    const std::atomic_ref value(words[1].value);
    while (value.load() != round && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(100us);
    ASSERT_EQ(value.load(), round);
    if (round % 5 == 0) std::this_thread::sleep_for(10ms);  // long enough for the host's pacemaker to go to sleep
  }
  stream.synchronize();
}

TEST_P(StreamTest, QueryIsFalseWhileWorkIsPending) {
  Stream stream(device());
  EXPECT_TRUE(stream.query());
  std::atomic<bool> go{false};
  device().launch(stream, [&go] {
    while (!go.load()) std::this_thread::yield();
  });
  EXPECT_FALSE(stream.query());
  go.store(true);
  stream.synchronize();
  EXPECT_TRUE(stream.query());
}

TEST_P(StreamTest, TwoStreamsRunAtOnce) {
  if (!on_host()) GTEST_SKIP() << "CUDA runs host functions of all streams on one thread";
  // Each function waits for the other one, for up to 30 s: in a single queue the first would wait in vain.
  Stream first(device());
  Stream second(device());
  std::atomic<int> arrived{0};
  std::atomic<int> met{0};
  const auto meet = [&] {
    arrived.fetch_add(1);
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (arrived.load() < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    if (arrived.load() == 2) met.fetch_add(1);
  };
  device().launch(first, meet);
  device().launch(second, meet);
  first.synchronize();
  second.synchronize();
  EXPECT_EQ(met.load(), 2);
}

TEST_P(StreamTest, OneThatWasMovedFromOrReleasedSaysSo) {
  Stream first(device());
  Stream second(device());
  const Stream moved = std::move(first);
  const Stream taken = Stream::from_native_handle(device(), second.release());
  Stream third(device());
  Stream assigned(device());
  assigned = std::move(third);
  EXPECT_TRUE(assigned.query());
  // NOLINTBEGIN(bugprone-use-after-move)
  for (const Stream* stream : {&first, &second, &third}) {
    expect_error<InvalidArgument>([&] { static_cast<void>(stream->device()); }, {"moved from, or released"});
    expect_error<InvalidArgument>([&] { stream->synchronize(); }, {"moved from, or released"});
    expect_error<InvalidArgument>([&] { static_cast<void>(stream->query()); }, {"moved from, or released"});
  }
  // NOLINTEND(bugprone-use-after-move)
}

TEST_P(StreamTest, DestructorDoesNotWaitAndWorkStillRuns) {
  std::atomic<bool> go{false};
  std::atomic<int> ran{0};
  {
    Stream stream(device());
    device().launch(stream, [&] {
      while (!go.load()) std::this_thread::yield();
    });
    for (int i = 0; i < 100; ++i) device().launch(stream, [&ran] { ran.fetch_add(1); });
  }
  EXPECT_EQ(ran.load(), 0);
  go.store(true);
  device().synchronize();
  EXPECT_EQ(ran.load(), 100);
}

TEST_P(StreamTest, MovesAndReleases) {
  Stream stream(device());
  const StreamRef ref = stream;
  EXPECT_EQ(ref.type(), GetParam());
  Stream moved = std::move(stream);
  EXPECT_EQ(moved.ref(), ref);
  moved = Stream(device(), StreamPriority::high);
  EXPECT_NE(moved.ref(), ref);
  const StreamRef released = moved.release();
  Stream again = Stream::from_native_handle(device(), released);
  EXPECT_EQ(again.ref(), released);
  bool ran = false;
  device().launch(again, [&ran] { ran = true; });
  again.synchronize();
  EXPECT_TRUE(ran);
}

TEST_P(StreamTest, SynchronizeThrowsWhatAFunctionThrewOnce) {
  Stream stream(device());
  bool later = false;
  device().launch(stream, [] { throw std::runtime_error("from the stream"); });
  device().launch(stream, [&later] { later = true; });
  try {
    stream.synchronize();
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "from the stream");
  }
  EXPECT_TRUE(later);
  EXPECT_NO_THROW(stream.synchronize());
}

// The next stream may reuse a destroyed stream's handle, but must not rethrow what the destroyed one's function threw.
TEST_P(StreamTest, WhatAStreamThrewThatIsGoneNobodyElseThrows) {
  for (int round = 0; round < 20; ++round) {
    const auto go = std::make_shared<std::atomic<bool>>(false);
    {
      const Stream gone(device());
      device().launch(gone, [go] {
        while (!go->load()) std::this_thread::yield();
        throw std::runtime_error("of a stream that is gone");
      });
    }
    const Stream next(device());
    device().launch(next, [] {});
    go->store(true);
    EXPECT_NO_THROW(next.synchronize());
  }
}

TEST_P(StreamTest, DeviceSynchronizeFinishesAllStreams) {
  std::vector<Stream> streams;
  std::atomic<int> ran{0};
  for (int i = 0; i < 8; ++i) streams.emplace_back(device());
  for (const Stream& stream : streams) {
    for (int i = 0; i < 10; ++i) device().launch(stream, [&ran] { ran.fetch_add(1); });
  }
  device().synchronize();
  EXPECT_EQ(ran.load(), 80);
}

TEST_P(StreamTest, OfAnotherDeviceAreRefusedByTheHost) {
  if (!on_host()) GTEST_SKIP() << "a cudaStream_t of another device is found by the driver";
  const auto other = open_device({DeviceType::host, 0});
  const Stream theirs(*other);
  const StreamRef foreign(reinterpret_cast<CUstream_st*>(&device()));  // never dereferenced
  const StreamRef none(static_cast<HostStream*>(nullptr));
  std::byte untouched{0};
  const auto gemm = device().gemm({.m = 1, .n = 1, .k = 1});
  Event event(device());
  for (const StreamRef stream : {theirs.ref(), foreign, none}) {
    EXPECT_THROW(device().launch(stream, [] {}), InvalidArgument);
    EXPECT_THROW(device().fill(stream, &untouched, std::byte{1}, 1), InvalidArgument);
    EXPECT_THROW(device().stream_synchronize(stream), InvalidArgument);
    EXPECT_THROW(event.record(stream), InvalidArgument);
    EXPECT_THROW(gemm->run(stream, {}), InvalidArgument);
  }
}

TEST_P(StreamTest, AFunctionThatSynchronizesItsOwnStreamIsToldSo) {
  if (!on_host()) GTEST_SKIP() << "the CUDA runtime forbids its calls in such functions";
  Stream stream(device());
  std::string told;
  device().launch(stream, [&] {
    try {
      stream.synchronize();
    } catch (const InvalidArgument& error) {
      told = error.what();
    }
  });
  stream.synchronize();
  EXPECT_NE(told.find("would wait for itself"), std::string::npos) << told;
  EXPECT_THROW(device().launch(stream, nullptr), InvalidArgument);
}

// What is no stream of this device is not touched when its owner goes.
TEST_P(StreamTest, AHandleThatIsNoStreamIsLetGoOf) {
  if (!on_host()) GTEST_SKIP() << "a cudaStream_t is known to the driver alone";
  EXPECT_THROW(Stream::from_native_handle(device(), StreamRef(static_cast<HostStream*>(nullptr))).synchronize(),
               InvalidArgument);
}

TEST_P(StreamTest, TakesWorkFromSeveralThreads) {
  Stream stream(device());
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        device().launch(stream, [&ran] { ran.store(ran.load() + 1); });  // loses counts if two run at a time
        if (i % 50 == 0) stream.synchronize();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stream.synchronize();
  EXPECT_EQ(ran.load(), 2000);
}

TANDEM_ON_EACH_DEVICE(StreamTest);

}  // namespace
}  // namespace tandem::testing
