// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/signal.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <span>
#include <thread>
#include <vector>

#include "tandem/device/push.hpp"

#include "device/with_control.hpp"

namespace tandem::testing {
namespace {

class SignalTest : public WithControl {
 protected:
  [[nodiscard]] Buffer words(std::size_t count) const { return upload(std::vector<SignalWord>(count)); }
};

TEST_P(SignalTest, CarriesDataBetweenTwoStreams) {
  // Two ranks' words on one device: one rank sends the data in pieces, and the other acknowledges each.
  Buffer pads = words(2);
  SignalWord* const left = pads.data_as<SignalWord>();
  SignalWord* const right = left + 1;
  Stream one(device());
  Stream two(device());
  constexpr int rounds = 200;
  const std::vector<std::byte> data = random_bytes(64 * rounds);
  Buffer source = upload(data);
  Buffer middle = upload(std::vector<std::byte>(64));
  Buffer target = upload(std::vector<std::byte>(data.size()));
  for (int i = 0; i < rounds; ++i) {
    const SignalPut filled{.mine = left, .theirs = right};
    const SignalPut read{.mine = right, .theirs = left};
    const SignalWait for_filled{.word = right, .count = 1, .peer = 0};
    const SignalWait for_read{.word = left, .count = 1, .peer = 1};
    device().copy(one, {.dst = middle.data(), .src = source.data_as<std::byte>() + 64 * i, .bytes = 64});
    device().signal(one, {&filled, 1});
    device().wait(one, {&for_read, 1}, control_);
    device().wait(two, {&for_filled, 1}, control_);
    device().copy(two, {.dst = target.data_as<std::byte>() + 64 * i, .src = middle.data(), .bytes = 64});
    device().signal(two, {&read, 1});
  }
  one.synchronize();
  two.synchronize();
  EXPECT_EQ(control_->failed, 0U);
  EXPECT_EQ(download<std::byte>(target), data);
  const auto after = download<SignalWord>(pads);
  for (const SignalWord& word : after) {
    EXPECT_EQ(word.value, static_cast<std::uint64_t>(rounds));
    EXPECT_EQ(word.taken, static_cast<std::uint64_t>(rounds));
    EXPECT_EQ(word.put, static_cast<std::uint64_t>(rounds));
  }
}

TEST_P(SignalTest, CountedAheadTheyComeWithTheirDataAllTheSame) {
  Buffer pads = words(2);
  SignalWord* const left = pads.data_as<SignalWord>();
  SignalWord* const right = left + 1;
  const Stream one(device());
  const Stream two(device());
  constexpr std::size_t rounds = 100;
  constexpr std::size_t bytes = 4096;
  const std::vector<std::byte> data = random_bytes(bytes * rounds);
  const Buffer source = upload(data);
  const Buffer middle = upload(std::vector<std::byte>(bytes));
  const Buffer target = upload(std::vector<std::byte>(data.size()));
  const auto place = [](const Buffer& buffer, std::size_t round) {
    return buffer.data_as<std::byte>() + bytes * round;
  };
  const SignalWait for_read{.word = left, .count = 1, .peer = 1};
  const SignalWait for_filled{.word = right, .count = 1, .peer = 0};
  const SignalPut read{.mine = right, .theirs = left};
  SignalPut filled{.mine = left, .theirs = right};
  for (std::size_t round = 0; round < rounds; ++round) {
    filled.counted = false;
    device().wait_and_count(one, std::span(&for_read, round == 0 ? 0 : 1), {&filled, 1}, control_);
    filled.counted = true;
    device().copy(one, {.dst = middle.data(), .src = place(source, round), .bytes = bytes});
    if (round % 2 == 0) {
      device().signal(one, {&filled, 1});
    } else {
      const Push push{.put = filled};  // a push without a copy
      device().push(one, {&push, 1});
    }
    device().wait(two, {&for_filled, 1}, control_);
    device().copy(two, {.dst = place(target, round), .src = middle.data(), .bytes = bytes});
    device().signal(two, {&read, 1});
  }
  one.synchronize();
  two.synchronize();
  EXPECT_EQ(control_->failed, 0U);
  EXPECT_EQ(download<std::byte>(target), data);
  for (const SignalWord& word : download<SignalWord>(pads)) {
    EXPECT_EQ(word.put, rounds);
    EXPECT_EQ(word.value, rounds);
  }
}

TEST_P(SignalTest, SignalAndWaitMeetsInOneStep) {
  // Two streams that each write a byte, synchronize, read the other's byte, and synchronize before the next write.
  constexpr std::size_t rounds = 100;
  const Buffer pads = words(2);
  const Buffer bytes = upload(std::vector<std::byte>(2));
  const std::array<Stream, 2> streams{Stream(device()), Stream(device())};
  std::vector<Buffer> seen;
  for (int me = 0; me < 2; ++me) seen.push_back(upload(std::vector<std::byte>(rounds)));
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t me = 0; me < 2; ++me) {
      SignalWord* const mine = pads.data_as<SignalWord>() + me;
      SignalWord* const theirs = pads.data_as<SignalWord>() + (1 - me);
      const SignalPut put{.mine = mine, .theirs = theirs};
      const SignalWait wait{.word = mine, .count = 1, .peer = static_cast<std::int32_t>(1 - me)};
      const auto meet = [&] { device().signal_and_wait(streams[me], {&put, 1}, {&wait, 1}, control_); };
      device().fill(streams[me], bytes.data_as<std::byte>() + me, static_cast<std::byte>(2 * round + me), 1);
      meet();
      device().copy(
          streams[me],
          {.dst = seen[me].data_as<std::byte>() + round, .src = bytes.data_as<std::byte>() + (1 - me), .bytes = 1});
      meet();
    }
  }
  for (const Stream& stream : streams) stream.synchronize();
  EXPECT_EQ(control_->failed, 0U);
  for (std::size_t me = 0; me < 2; ++me) {
    const auto got = download<std::byte>(seen[me]);
    for (std::size_t round = 0; round < rounds; ++round) {
      ASSERT_EQ(got[round], static_cast<std::byte>(2 * round + 1 - me)) << "stream " << me << ", round " << round;
    }
  }
}

TEST_P(SignalTest, TakesManyAtOnce) {
  Buffer mine = words(max_signals);
  Buffer theirs = words(max_signals);
  std::vector<SignalPut> puts;
  std::vector<SignalWait> waits;
  for (std::size_t i = 0; i < max_signals; ++i) {
    puts.push_back({.mine = mine.data_as<SignalWord>() + i, .theirs = theirs.data_as<SignalWord>() + i});
    waits.push_back({.word = theirs.data_as<SignalWord>() + i, .count = 2});
  }
  Stream stream(device());
  device().signal(stream, puts);
  device().signal(stream, puts);
  device().wait(stream, waits, control_);
  stream.synchronize();
  EXPECT_EQ(control_->failed, 0U);
  for (const SignalWord& word : download<SignalWord>(theirs)) {
    EXPECT_EQ(word.value, 2U);
    EXPECT_EQ(word.taken, 2U);
  }
}

TEST_P(SignalTest, ADeadlineLeavesARecordAndLetsTheStreamGoOn) {
  Buffer pads = words(3);
  SignalWord* const word = pads.data_as<SignalWord>();
  control_->timeout_ns = 30'000'000;
  const SignalPut put{.mine = word + 2, .theirs = word};
  const SignalWait waits[] = {{.word = word, .count = 1, .peer = 4, .channel = 1, .operation = 9},
                              {.word = word + 1, .count = 3, .peer = 5, .channel = 2, .operation = 9}};
  Stream stream(device());
  device().signal(stream, {&put, 1});
  device().wait(stream, waits, control_);
  bool went_on = false;
  device().launch(stream, [&went_on] { went_on = true; });
  stream.synchronize();
  EXPECT_TRUE(went_on);
  EXPECT_EQ(control_->abort, 1U);
  ASSERT_EQ(control_->failed, 2U);
  EXPECT_EQ(control_->failure.operation, 9U);
  EXPECT_EQ(control_->failure.peer, 5);
  EXPECT_EQ(control_->failure.channel, 2U);
  EXPECT_EQ(control_->failure.expected, 3U);
  EXPECT_EQ(control_->failure.seen, 0U);
  EXPECT_GE(control_->failure.waited_ns, 30'000'000U);
  EXPECT_LT(control_->failure.waited_ns, 10'000'000'000U);
}

// Ranks 8, 40 and 72 have the same bit of different words of `departed_ranks`.
TEST_P(SignalTest, AWaitForADepartedRankEndsUnlessItsSignalIsThere) {
  Buffer pads = words(4);
  SignalWord* const word = pads.data_as<SignalWord>();
  const Stream stream(device());
  mark_departed(control_, 40);
  const SignalPut put{.mine = word + 3, .theirs = word};
  const SignalWait there{.word = word, .count = 1, .peer = 40};
  device().signal(stream, {&put, 1});
  device().wait(stream, {&there, 1}, control_);
  stream.synchronize();
  EXPECT_EQ(control_->failed, 0U) << "what a rank sent before counts";

  // The host waits for one after the other, hence the departed rank's first.
  const SignalWait others[] = {{.word = word + 1, .count = 1, .peer = 72}, {.word = word + 2, .count = 1, .peer = 8}};
  device().wait(stream, others, control_);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(std::atomic_ref(control_->failed).load(), 0U) << "others have not departed";
  const auto departed_at = std::chrono::steady_clock::now();
  mark_departed(control_, 72);
  stream.synchronize();
  EXPECT_LT(std::chrono::steady_clock::now() - departed_at, std::chrono::seconds(10)) << "the deadline is 20 s";
  EXPECT_EQ(control_->abort, 1U);
  ASSERT_EQ(control_->failed, 2U);
  EXPECT_EQ(control_->failure.peer, 72);
  EXPECT_EQ(control_->failure.departed, 1U);
  EXPECT_EQ(control_->failure.seen, 0U);
}

// A rank's last signal and its departure may both arrive between two polls of a wait: the signal must not be lost.
TEST_P(SignalTest, ASignalJustBeforeADepartureCounts) {
  const Registered<SignalWord> page(device_);
  SignalWord* const word = page.data();
  const Stream stream(device());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);  // by time: nothing wakes a sleeper
  for (int round = 1; std::chrono::steady_clock::now() < end; ++round) {
    departed_ranks(control_)[0] = 0;
    std::atomic_ref(control_->departures).store(0);
    const SignalWait wait{.word = word, .count = 1, .peer = 5};
    std::atomic<bool> begins = false;
    device().launch(stream, [&begins] { begins = true; });
    device().wait(stream, {&wait, 1}, control_);
    while (!begins) std::this_thread::yield();
    const auto soon = std::chrono::steady_clock::now() + std::chrono::microseconds(random_between(0, 100));
    while (std::chrono::steady_clock::now() < soon) {
    }
    std::atomic_ref(word->value).store(static_cast<std::uint64_t>(round));
    mark_departed(control_, 5);
    stream.synchronize();
    ASSERT_EQ(control_->failed, 0U) << "round " << round;
  }
}

TEST_P(SignalTest, AWaitThatAnAbortEndsSaysWhatItHasSeen) {
  const Buffer pads = words(2);
  SignalWord* const word = pads.data_as<SignalWord>();
  const SignalPut put{.mine = word + 1, .theirs = word};
  const SignalWait wait{.word = word, .count = 3, .peer = 5, .channel = 2, .operation = 9};
  Stream stream(device());
  device().signal(stream, {&put, 1});
  device().wait(stream, {&wait, 1}, control_);
  // On the host a thread may begin the wait late; once it sleeps, it has begun.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (on_host() && std::atomic_ref(word->sleepers).load() == 0 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(control_->cut_short, 0U);
  std::atomic_ref(control_->abort).store(1);
  stream.synchronize();
  EXPECT_EQ(control_->failed, 0U);
  ASSERT_EQ(control_->cut_short, 2U);
  EXPECT_EQ(control_->cut.operation, 9U);
  EXPECT_EQ(control_->cut.peer, 5);
  EXPECT_EQ(control_->cut.channel, 2U);
  EXPECT_EQ(control_->cut.expected, 3U);
  EXPECT_EQ(control_->cut.seen, 1U);
  EXPECT_GE(control_->cut.waited_ns, 10'000'000U);
  EXPECT_EQ(control_->cut.error, 0);
}

TEST_P(SignalTest, AnAbortedWaitEndsAtOnceAndStillTakes) {
  Buffer pads = words(2);
  control_->abort = 1;
  const SignalWait waits[] = {{.word = pads.data_as<SignalWord>(), .count = 1},
                              {.word = pads.data_as<SignalWord>() + 1, .count = 5}};
  Stream stream(device());
  device().wait(stream, waits, control_);
  stream.synchronize();
  EXPECT_EQ(control_->failed, 0U);
  const auto after = download<SignalWord>(pads);
  EXPECT_EQ(after[0].taken, 1U);
  EXPECT_EQ(after[1].taken, 5U);
}

TANDEM_ON_EACH_DEVICE(SignalTest);

}  // namespace
}  // namespace tandem::testing
