// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/mailed_sum.hpp"

#include <array>
#include <cstdint>
#include <gtest/gtest.h>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/mail.hpp"

#include "device/with_control.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

constexpr std::size_t ranks = 3;
constexpr std::size_t lanes = 4;
constexpr std::size_t turns = 2;
constexpr std::int64_t longest = 304;  // elements of a slice
constexpr std::size_t pitch = mailbox_bytes(longest * sizeof(double));

/// Ranks are streams of one device.
class MailedSumTest : public WithControl {
 protected:
  void SetUp() override {
    WithControl::SetUp();
    if (IsSkipped()) return;
    boxes_ = upload(std::vector<std::byte>(ranks * lanes * turns * ranks * pitch));
    for (std::size_t me = 0; me < ranks; ++me) {
      for (std::size_t peer = 0; peer < ranks; ++peer) {
        if (peer == me) continue;
        peers_[me].push_back(
            {.theirs = mailbox(peer, me), .mine = mailbox(me, peer), .world_rank = static_cast<std::int32_t>(peer)});
      }
    }
  }
  [[nodiscard]] SignalWord* mailbox(std::size_t owner, std::size_t writer) const {
    return reinterpret_cast<SignalWord*>(boxes_.data_as<std::byte>() +
                                         (owner * lanes * turns * ranks + writer) * pitch);
  }
  [[nodiscard]] MailedSum sum(std::size_t me, const void* input, void* out, std::int64_t count, DType dtype) const {
    return {.peers = peers_[me],
            .rank = static_cast<std::int32_t>(me),
            .input = input,
            .out = out,
            .count = count,
            .dtype = dtype,
            .slice = (count + 63) / 64 * 16,
            .lane_pitch = turns * ranks * pitch,
            .turn_pitch = ranks * pitch,
            .operation = 7};
  }

  Buffer boxes_;
  std::array<std::vector<MailPeer>, ranks> peers_;
};

TEST_P(MailedSumTest, ADeviceSaysWhetherItSumsMail) {
  EXPECT_EQ(device().sums_mail(), !on_host());
  if (device().sums_mail()) return;
  const Stream stream(device());
  expect_error<Unsupported>([&] { device().mailed_sum(stream, {}, control_); }, {"sums no mail"});
}

TEST_P(MailedSumTest, HasTheBitsOfAReductionInEveryTurnOfEveryLane) {
  if (!device().sums_mail()) GTEST_SKIP() << "this device sums no mail";
  std::vector<Stream> streams;
  for (std::size_t me = 0; me < ranks; ++me) streams.emplace_back(device());
  constexpr std::int64_t most = 1200;
  std::vector<Buffer> inputs;
  for (std::size_t me = 0; me < ranks; ++me) inputs.push_back(upload(random_bytes(most * sizeof(std::int64_t))));
  Buffer wanted = upload(std::vector<std::byte>(most * sizeof(std::int64_t)));
  for (const DType dtype : {i32, i64, i32}) {
    for (const std::int64_t count : {1, 3, 47, 48, 49, 200, 1199, 1200}) {
      for (const std::size_t offset : {0U, 1U}) {  // in elements; one that vector accesses do not take
        const std::int64_t some = count - static_cast<std::int64_t>(offset);
        if (some == 0) continue;
        const std::size_t at = offset * size_of(dtype);
        std::vector<Buffer> outs;
        std::vector<const void*> sources;
        for (std::size_t me = 0; me < ranks; ++me) {
          outs.push_back(upload(std::vector<std::byte>(most * sizeof(std::int64_t), std::byte{0xA5})));
          sources.push_back(inputs[me].data_as<std::byte>() + at);
        }
        for (std::size_t me = 0; me < ranks; ++me) {
          device().mailed_sum(streams[me], sum(me, sources[me], outs[me].data_as<std::byte>() + at, some, dtype),
                              control_);
        }
        void* const to = wanted.data();
        device().reduce(
            streams[0],
            {.sources = sources, .destinations = std::span(&to, 1), .count = some, .dtype = dtype, .out_dtype = dtype});
        for (const Stream& stream : streams) stream.synchronize();
        const std::size_t bytes = static_cast<std::size_t>(some) * size_of(dtype);
        const auto sums = download<std::byte>(wanted);
        for (std::size_t me = 0; me < ranks; ++me) {
          const auto got = download<std::byte>(outs[me]);
          for (std::size_t i = 0; i < got.size(); ++i) {
            const bool inside = i >= at && i < at + bytes;
            ASSERT_EQ(got[i], inside ? sums[i - at] : std::byte{0xA5})
                << name(dtype) << ", " << some << " elements, rank " << me << ", byte " << i;
          }
        }
      }
    }
  }
  EXPECT_EQ(control_->failed, 0U);
}

TEST_P(MailedSumTest, TheRecordNamesWhoDidNotSend) {
  if (!device().sums_mail()) GTEST_SKIP() << "this device sums no mail";
  control_->timeout_ns = 30'000'000;
  std::vector<Stream> streams;
  for (std::size_t me = 0; me < ranks; ++me) streams.emplace_back(device());
  const Buffer data = upload(std::vector<float>(100, 1.0F));
  for (const std::size_t me : {0U, 1U}) {
    device().mailed_sum(streams[me], sum(me, data.data(), data.data(), 100, f32), control_);
  }
  for (const Stream& stream : streams) stream.synchronize();
  EXPECT_EQ(control_->abort, 1U);
  ASSERT_EQ(control_->failed, 2U);
  EXPECT_EQ(control_->failure.peer, 2);
  EXPECT_LT(control_->failure.channel, lanes);  // one of the lanes
  EXPECT_EQ(control_->failure.operation, 7U);
  EXPECT_EQ(control_->failure.expected, 1U);
  EXPECT_EQ(control_->failure.seen, 0U);
}

TANDEM_ON_EACH_DEVICE(MailedSumTest);

}  // namespace
}  // namespace tandem::testing
