// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/meeting.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <span>
#include <thread>
#include <vector>

#include "tandem/base/error.hpp"

#include "device/with_control.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

constexpr std::size_t ranks = 3;
constexpr int blocks = 5;
constexpr std::byte untouched{0xA5};

/// The ranks are streams of one device.
class MeetingTest : public WithControl {
 protected:
  void SetUp() override {
    WithControl::SetUp();
    if (IsSkipped()) return;
    words_ = upload(std::vector<SignalWord>(ranks * blocks * ranks));
    for (std::size_t me = 0; me < ranks; ++me) {
      streams_.emplace_back(device());
      for (std::size_t peer = 0; peer < ranks; ++peer) {
        if (peer == me) continue;
        peers_[me].push_back(
            {.theirs = word(peer, me), .mine = word(me, peer), .world_rank = static_cast<std::int32_t>(peer)});
      }
    }
  }
  [[nodiscard]] SignalWord* word(std::size_t owner, std::size_t writer) const {
    return words_.data_as<SignalWord>() + owner * blocks * ranks + writer;
  }
  [[nodiscard]] MeetingBlocks meeting(std::size_t me, int some = blocks) const {
    return {.peers = peers_[me], .pitch = ranks * sizeof(SignalWord), .blocks = some, .operation = 7};
  }
  /// Queues the writes of each rank's input on its stream, some late: a peer that reads before the meeting would find
  /// the old contents. Called before any kernel that waits is queued: if streams share hardware queues, a copy must not
  /// be queued after another stream's kernel that waits for it.
  void write_late(const std::vector<Buffer>& inputs, const std::vector<Buffer>& news, std::size_t bytes,
                  std::size_t round) {
    for (std::size_t me = 0; me < ranks; ++me) {
      if ((round + me) % 4 == 0) {
        device().launch(streams_[me], [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
      }
      device().copy(streams_[me], {.dst = inputs[me].data(), .src = news[me].data(), .bytes = bytes});
    }
  }
  void synchronize() const {
    for (const Stream& stream : streams_) stream.synchronize();
  }

  Buffer words_;
  std::vector<Stream> streams_;
  std::array<std::vector<PeerWords>, ranks> peers_;
};

TEST_P(MeetingTest, ADeviceSaysWhetherItMeets) {
  EXPECT_EQ(device().meets(), !on_host());
  if (device().meets()) return;
  const Stream stream(device());
  expect_error<Unsupported>([&] { device().reduce_in_meeting(stream, {}, meeting(0), control_); },
                            {"does not reduce in meetings"});
  expect_error<Unsupported>([&] { device().copy_in_meeting(stream, {}, meeting(0), control_); },
                            {"does not copy in meetings"});
  expect_error<Unsupported>([&] { device().spread_in_meeting(stream, {}, meeting(0), control_); },
                            {"does not copy in meetings"});
}

struct MeetingCase {
  DType dtype;
  std::int64_t part;    // elements of each rank; the last one may have fewer
  std::int64_t offset;  // of all pointers: 0 allows vector accesses
};

// Each rank sums its part of all ranks' inputs and stores it in all ranks' outputs, as in an all-reduce.
TEST_P(MeetingTest, NobodyReadsBeforeAllHaveComeAndAllIsThereBehind) {
  if (!device().meets()) GTEST_SKIP() << "this device does not reduce in meetings";
  std::vector<MeetingCase> cases;
  for (const DType dtype : {i32, i64, u8}) {
    for (const std::int64_t part : {0, 1, 77, 1280, 13'333}) {
      for (const std::int64_t offset : {0, 1}) cases.push_back({dtype, part, offset});
    }
  }
  int round = 0;
  for (const auto& [dtype, part, offset] : cases) {
    ++round;
    const std::int64_t count = part * 3 - (part > 1 ? 1 : 0);
    const std::size_t element = size_of(dtype);
    const std::size_t bytes = static_cast<std::size_t>(count + 8) * element;
    const auto at = [&, offset = offset](const Buffer& buffer, std::int64_t i) -> std::byte* {
      return buffer.data_as<std::byte>() + static_cast<std::size_t>(i + offset) * element;
    };
    std::vector<Buffer> news;
    std::vector<Buffer> inputs;
    std::vector<Buffer> outs;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      news.push_back(upload(random_bytes(bytes)));
      inputs.push_back(upload(random_bytes(bytes)));
      outs.push_back(upload(std::vector<std::byte>(bytes, untouched)));
    }
    const Buffer expected = upload(std::vector<std::byte>(bytes, untouched));
    write_late(inputs, news, bytes, static_cast<std::size_t>(round));
    for (std::size_t me = 0; me < ranks; ++me) {
      const std::int64_t begin = static_cast<std::int64_t>(me) * part;
      std::vector<const void*> sources;
      std::vector<void*> destinations;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        destinations.push_back(at(outs[rank], begin));
        sources.push_back(at(inputs[rank], begin));
      }
      device().reduce_in_meeting(streams_[me],
                                 {.sources = sources,
                                  .destinations = destinations,
                                  .count = std::max(std::min(part, count - begin), std::int64_t{0}),
                                  .dtype = dtype,
                                  .out_dtype = dtype},
                                 meeting(me, 1 + round % blocks), control_);
    }
    // Work that follows the meeting may reuse the inputs at once, since no peer reads them any more.
    for (std::size_t me = 0; me < ranks; ++me) device().fill(streams_[me], inputs[me].data(), std::byte{0x11}, bytes);
    synchronize();
    ASSERT_EQ(control_->failed, 0U);

    for (std::size_t me = 0; me < ranks; ++me) {
      const std::int64_t begin = static_cast<std::int64_t>(me) * part;
      std::vector<const void*> sources;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        sources.push_back(at(news[rank], begin));
      }
      void* const to = at(expected, begin);
      device().reduce(streams_[me], {.sources = sources,
                                     .destinations = std::span(&to, 1),
                                     .count = std::max(std::min(part, count - begin), std::int64_t{0}),
                                     .dtype = dtype,
                                     .out_dtype = dtype});
    }
    synchronize();
    for (const Buffer& out : outs) {
      ASSERT_EQ(download<std::byte>(out), download<std::byte>(expected))
          << name(dtype) << ", parts of " << part << " from " << offset << " on";
    }
  }
}

// As in an all-to-all: each rank has a part of any length for every rank, and either stores its parts into the peers'
// outputs or loads the parts meant for it from the peers' inputs.
TEST_P(MeetingTest, CopiesOfAnyLengthMeetToo) {
  if (!device().meets()) GTEST_SKIP() << "this device does not copy in meetings";
  constexpr std::size_t room = 40'000;  // for a part
  constexpr std::size_t bytes = ranks * room;
  const auto place = [](const Buffer& buffer, std::size_t part) { return buffer.data_as<std::byte>() + part * room; };
  std::size_t round = 0;
  for (const bool loads : {false, true}) {
    for (const std::size_t unit : {1U, 2U, 4U, 8U, 16U}) {
      for (const std::size_t longest : {0U, 1U, 77U, 2400U}) {
        ++round;
        const auto length = [&](std::size_t from, std::size_t to) {
          const std::size_t rest = unit == 16 ? 5 * to : 0;  // bytes after the last whole word
          return from == 1 && to == 2 ? 0 : (longest * (1 + from + to) / 5) * unit + rest;
        };
        std::vector<Buffer> news;
        std::vector<Buffer> inputs;
        std::vector<Buffer> outs;
        std::vector<std::vector<std::byte>> expected(ranks, std::vector<std::byte>(bytes, untouched));
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          const std::vector<std::byte> values = random_bytes(bytes);
          for (std::size_t to = 0; to < ranks; ++to) {
            std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(to * room + unit % 16), length(rank, to),
                        expected[to].begin() + static_cast<std::ptrdiff_t>(rank * room + unit % 16));
          }
          news.push_back(upload(values));
          inputs.push_back(upload(random_bytes(bytes)));
          outs.push_back(upload(std::vector<std::byte>(bytes, untouched)));
        }
        write_late(inputs, news, bytes, round);
        for (std::size_t me = 0; me < ranks; ++me) {
          std::vector<Copy> copies;
          for (std::size_t peer = 0; peer < ranks; ++peer) {
            const std::size_t from = loads ? peer : me;
            const std::size_t to = loads ? me : peer;
            copies.push_back({.dst = place(outs[to], from) + unit % 16,
                              .src = place(inputs[from], to) + unit % 16,
                              .bytes = length(from, to)});
          }
          device().copy_in_meeting(streams_[me], copies, meeting(me, 1 + static_cast<int>(round) % blocks), control_);
        }
        for (std::size_t me = 0; me < ranks; ++me) {
          device().fill(streams_[me], inputs[me].data(), std::byte{0x11}, bytes);
        }
        synchronize();
        ASSERT_EQ(control_->failed, 0U);
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          ASSERT_EQ(download<std::byte>(outs[rank]), expected[rank])
              << (loads ? "loads" : "stores") << " in words of " << unit << ", up to " << longest;
        }
      }
    }
  }
}

// Each rank stores its input into all ranks' outputs, as in an all-gather.
TEST_P(MeetingTest, WhatARankHoldsIsSpreadWhereAllHaveCome) {
  if (!device().meets()) GTEST_SKIP() << "this device does not copy in meetings";
  constexpr std::size_t room = 90'000;  // for a part: more than a few blocks load in one iteration
  constexpr std::size_t bytes = ranks * room;
  std::size_t round = 0;
  for (const std::size_t unit : {1U, 2U, 4U, 8U, 16U}) {
    for (const std::size_t length : {0U, 1U, 77U, 5000U, 89'900U}) {
      ++round;
      std::vector<Buffer> news;
      std::vector<Buffer> inputs;
      std::vector<Buffer> outs;
      std::vector<Buffer> blanks;
      std::vector<std::byte> expected(bytes, untouched);
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::vector<std::byte> values = random_bytes(room);
        std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(unit % 16), length,
                    expected.begin() + static_cast<std::ptrdiff_t>(rank * room + unit % 16));
        news.push_back(upload(values));
        inputs.push_back(upload(random_bytes(room)));
        blanks.push_back(upload(std::vector<std::byte>(bytes, untouched)));
        outs.push_back(upload(random_bytes(bytes)));
      }
      write_late(inputs, news, room, round);
      // Also late: these blanks would overwrite what a peer stored before the output's owner had joined the meeting.
      write_late(outs, blanks, bytes, round + 1);
      for (std::size_t me = 0; me < ranks; ++me) {
        std::vector<void*> places;
        for (const Buffer& out : outs) places.push_back(out.data_as<std::byte>() + me * room + unit % 16);
        device().spread_in_meeting(
            streams_[me],
            {.source = inputs[me].data_as<std::byte>() + unit % 16, .destinations = places, .bytes = length},
            meeting(me, 1 + static_cast<int>(round) % blocks), control_);
      }
      for (std::size_t me = 0; me < ranks; ++me) device().fill(streams_[me], inputs[me].data(), std::byte{0x11}, room);
      synchronize();
      ASSERT_EQ(control_->failed, 0U);
      for (const Buffer& out : outs) {
        ASSERT_EQ(download<std::byte>(out), expected) << length << " bytes in words of " << unit;
      }
    }
  }
}

TEST_P(MeetingTest, TheRecordNamesWhoDidNotCome) {
  if (!device().meets()) GTEST_SKIP() << "this device does not reduce in meetings";
  control_->timeout_ns = 30'000'000;
  for (const std::size_t me : {0U, 1U}) device().reduce_in_meeting(streams_[me], {}, meeting(me, 1), control_);
  synchronize();
  EXPECT_EQ(control_->abort, 1U);
  ASSERT_EQ(control_->failed, 2U);
  EXPECT_EQ(control_->failure.peer, 2);
  EXPECT_EQ(control_->failure.operation, 7U);
  EXPECT_EQ(control_->failure.expected, 1U);
  EXPECT_EQ(control_->failure.seen, 0U);
}

TANDEM_ON_EACH_DEVICE(MeetingTest);

}  // namespace
}  // namespace tandem::testing
