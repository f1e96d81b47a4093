// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/mailed_exchange.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <gtest/gtest.h>
#include <span>
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
constexpr std::int64_t longest = 9008;  // elements of a slice: more than a block has threads, in either kind of access
constexpr std::int64_t longest_shard = std::int64_t{lanes} * longest;
constexpr std::size_t pitch = mailbox_bytes(longest * sizeof(double));
constexpr std::byte untouched{0xA5};

/// Ranks are streams of one device.
class MailedExchangeTest : public WithControl {
 protected:
  void SetUp() override {
    WithControl::SetUp();
    if (IsSkipped()) return;
    if (!device().exchanges_mail()) return;
    boxes_ = upload(std::vector<std::byte>(ranks * lanes * turns * ranks * pitch));
    for (std::size_t me = 0; me < ranks; ++me) {
      streams_.emplace_back(device());
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

  /// What `me` runs, in as many lanes as there are; what does not depend on the rank is in `exchange`.
  void start(std::size_t me, MailedExchange exchange, const void* input, void* out) {
    exchange.input = input;
    exchange.out = out;
    exchange.peers = peers_[me];
    exchange.rank = static_cast<std::int32_t>(me);
    exchange.slice = (exchange.length + 63) / 64 * 16;
    exchange.lane_pitch = turns * ranks * pitch;
    exchange.turn_pitch = ranks * pitch;
    exchange.operation = 7;
    device().mailed_exchange(streams_[me], exchange, control_);
  }
  void synchronize() const {
    for (const Stream& stream : streams_) stream.synchronize();
  }

  Buffer boxes_;
  std::vector<Stream> streams_;
  std::array<std::vector<MailPeer>, ranks> peers_;
};

TEST_P(MailedExchangeTest, ADeviceSaysWhetherItExchangesMail) {
  EXPECT_EQ(device().exchanges_mail(), !on_host());
  if (device().exchanges_mail()) return;
  const Stream stream(device());
  expect_error<Unsupported>([&] { device().mailed_exchange(stream, {}, control_); }, {"exchanges no mail"});
}

struct Extent {
  std::int64_t count;
  std::int64_t shard;
};

// The last ones have slices of several accesses a thread; the last but two a rank without a shard.
constexpr Extent extents[]{{1, 1},      {3, 1},         {47, 16},         {48, 16},         {200, 80},
                           {1199, 400}, {20'000, 6672}, {64'000, 32'000}, {96'001, 32'016}, {107'999, 36'001}};

TEST_P(MailedExchangeTest, EveryFormHasTheBitsOfAReductionInEveryTurnOfEveryLane) {
  if (!device().exchanges_mail()) GTEST_SKIP() << "this device exchanges no mail";
  constexpr std::int64_t most = 110'000;
  std::vector<Buffer> inputs;
  for (std::size_t me = 0; me < ranks; ++me) inputs.push_back(upload(random_bytes(most * sizeof(std::int64_t))));
  const Buffer sums = memory(most * sizeof(std::int64_t));
  for (const DType dtype : {i32, i64, u8}) {
    for (const MailedForm form :
         {MailedForm::one_shot, MailedForm::two_shot, MailedForm::reduce_scatter, MailedForm::all_gather}) {
      if (dtype == u8 && form != MailedForm::all_gather) continue;
      for (const auto& [count, shard] : extents) {
        for (const std::size_t offset : {0U, 1U}) {  // in elements; one that vector accesses do not take
          const bool one_shot = form == MailedForm::one_shot;
          if (one_shot && count > longest_shard) continue;
          const MailedExchange exchange{.form = form,
                                        .count = count,
                                        .shard = one_shot ? 0 : shard,
                                        .length = one_shot ? count : shard,
                                        .dtype = dtype};
          const std::size_t at = offset * size_of(dtype);
          const auto bytes_of = [&](std::int64_t elements) {
            return static_cast<std::size_t>(elements) * size_of(dtype);
          };
          const auto shard_of_rank = [&](std::size_t rank) {
            const std::int64_t begin = std::min(count, static_cast<std::int64_t>(rank) * shard);
            return std::pair(bytes_of(begin), bytes_of(std::min(shard, count - begin)));
          };
          std::vector<Buffer> outs;
          std::vector<const void*> sources;
          for (std::size_t me = 0; me < ranks; ++me) {
            outs.push_back(upload(std::vector<std::byte>(most * sizeof(std::int64_t), untouched)));
            sources.push_back(inputs[me].data_as<std::byte>() + at);
          }
          for (std::size_t me = 0; me < ranks; ++me) {
            start(me, exchange, sources[me], outs[me].data_as<std::byte>() + at);
          }
          std::vector<std::byte> whole(bytes_of(count));
          if (form == MailedForm::all_gather) {
            for (std::size_t rank = 0; rank < ranks; ++rank) {
              const auto [begin, bytes] = shard_of_rank(rank);
              const auto given = download<std::byte>(inputs[rank]);
              std::copy_n(given.begin() + static_cast<std::ptrdiff_t>(at), bytes,
                          whole.begin() + static_cast<std::ptrdiff_t>(begin));
            }
          } else {
            void* const to = sums.data();
            device().reduce(streams_[0], {.sources = sources,
                                          .destinations = std::span(&to, 1),
                                          .count = count,
                                          .dtype = dtype,
                                          .out_dtype = dtype});
          }
          synchronize();
          if (form != MailedForm::all_gather) device().download(whole.data(), sums.data(), whole.size());
          for (std::size_t me = 0; me < ranks; ++me) {
            std::span<const std::byte> wanted = whole;
            if (form == MailedForm::reduce_scatter) {
              const auto [begin, bytes] = shard_of_rank(me);
              wanted = wanted.subspan(begin, bytes);
            }
            const auto got = download<std::byte>(outs[me]);
            for (std::size_t i = 0; i < got.size(); ++i) {
              const bool inside = i >= at && i < at + wanted.size();
              ASSERT_EQ(got[i], inside ? wanted[i - at] : untouched)
                  << name(dtype) << ", form " << static_cast<int>(form) << ", " << count << " elements in shards of "
                  << shard << ", offset " << offset << ", rank " << me << ", byte " << i;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(control_->failed, 0U);
}

TEST_P(MailedExchangeTest, FormsFollowEachOtherInPlace) {
  if (!device().exchanges_mail()) GTEST_SKIP() << "this device exchanges no mail";
  constexpr std::int64_t count = 3000;
  constexpr std::int64_t shard = 1000;
  std::vector<Buffer> tensors;
  std::vector<std::int32_t> sums(count);
  for (std::size_t me = 0; me < ranks; ++me) {
    const auto values = random_values<std::int32_t>(random(), count);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
    tensors.push_back(upload(values));
  }
  const auto run = [&](MailedForm form) {
    const bool one_shot = form == MailedForm::one_shot;
    for (std::size_t me = 0; me < ranks; ++me) {
      std::byte* const whole = tensors[me].data_as<std::byte>();
      std::byte* const own = whole + me * shard * sizeof(std::int32_t);
      start(me,
            {.form = form,
             .count = count,
             .shard = one_shot ? 0 : shard,
             .length = one_shot ? count : shard,
             .dtype = i32},
            form == MailedForm::all_gather ? own : whole, form == MailedForm::reduce_scatter ? own : whole);
    }
  };
  // Each but the first two halves adds up what is equal on all ranks by then.
  run(MailedForm::reduce_scatter);
  run(MailedForm::all_gather);
  run(MailedForm::two_shot);
  run(MailedForm::one_shot);
  run(MailedForm::two_shot);
  synchronize();
  constexpr auto n = static_cast<std::int32_t>(ranks);
  for (std::int32_t& sum : sums) sum *= n * n * n;
  for (std::size_t me = 0; me < ranks; ++me) EXPECT_EQ(download<std::int32_t>(tensors[me]), sums) << "rank " << me;
  EXPECT_EQ(control_->failed, 0U);
}

TEST_P(MailedExchangeTest, TheRecordNamesWhoDidNotSend) {
  if (!device().exchanges_mail()) GTEST_SKIP() << "this device exchanges no mail";
  control_->timeout_ns = 30'000'000;
  const Buffer data = upload(std::vector<float>(100, 1.0F));
  for (const std::size_t me : {0U, 1U}) {
    start(me, {.form = MailedForm::two_shot, .count = 100, .shard = 36, .length = 36, .dtype = f32}, data.data(),
          data.data());
  }
  synchronize();
  EXPECT_EQ(control_->abort, 1U);
  ASSERT_EQ(control_->failed, 2U);
  EXPECT_EQ(control_->failure.peer, 2);
  EXPECT_LT(control_->failure.channel, lanes);  // one of the lanes
  EXPECT_EQ(control_->failure.operation, 7U);
  EXPECT_EQ(control_->failure.expected, 1U);
  EXPECT_EQ(control_->failure.seen, 0U);
}

TANDEM_ON_EACH_DEVICE(MailedExchangeTest);

}  // namespace
}  // namespace tandem::testing
