// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/mailed_exchange.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <span>
#include <thread>
#include <utility>
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
constexpr std::int64_t longest = 9008;  // elements of a slice: more accesses of any width than a block's threads
constexpr std::int64_t longest_shard = std::int64_t{lanes} * longest;
constexpr std::size_t packet_box = mailbox_bytes(longest * sizeof(double));
constexpr std::size_t pitch = packet_box + (packet_box_bytes(longest * sizeof(double)) + 127) / 128 * 128;
constexpr std::byte untouched{0xA5};

enum class By : std::uint8_t { mailboxes, packets };

/// The ranks are streams of one device.
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

  /// Runs the exchange of rank `me`; `exchange` has the fields that are equal on all ranks.
  void start(std::size_t me, By by, MailedExchange exchange, const void* input, void* out) {
    exchange.input = input;
    exchange.out = out;
    exchange.peers = peers_[me];
    exchange.rank = static_cast<std::int32_t>(me);
    exchange.slice = (exchange.length + 63) / 64 * 16;
    exchange.lane_pitch = turns * ranks * pitch;
    exchange.turn_pitch = ranks * pitch;
    exchange.packet_box = by == By::packets ? packet_box : 0;
    exchange.operation = 7;
    device().mailed_exchange(streams_[me], exchange, control_);
  }
  void synchronize() const {
    for (const Stream& stream : streams_) stream.synchronize();
  }

  Buffer boxes_;
  std::vector<Stream> streams_;
  std::array<std::vector<PeerWords>, ranks> peers_;
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

// The last ones need several accesses per thread; in {64'000, 32'000} rank 2 has no shard.
constexpr Extent extents[]{{1, 1},      {3, 1},         {47, 16},         {48, 16},         {200, 80},
                           {1199, 400}, {20'000, 6672}, {64'000, 32'000}, {96'001, 32'016}, {107'999, 36'001}};

/// Where each rank's input begins, in elements; each output begins where the next rank's input does. A thread accesses
/// 16 bytes at a time, or fewer if alignment demands it, whatever the other ranks' alignments.
struct Placement {
  std::array<std::int64_t, ranks> offsets;
  By by;
};
constexpr Placement placements[]{{{0, 0, 0}, By::mailboxes},  {{1, 1, 1}, By::packets},   {{1, 1, 1}, By::mailboxes},
                                 {{0, 0, 0}, By::packets},    {{0, 1, 4}, By::mailboxes}, {{3, 0, 2}, By::packets},
                                 {{1, 16, 0}, By::mailboxes}, {{0, 1, 16}, By::packets}};

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
        for (const auto& [offsets, by] : placements) {
          const bool one_shot = form == MailedForm::one_shot;
          if (one_shot && count > longest_shard) continue;
          const MailedExchange exchange{.form = form,
                                        .count = count,
                                        .shard = one_shot ? 0 : shard,
                                        .length = one_shot ? count : shard,
                                        .dtype = dtype};
          const auto bytes_of = [&](std::int64_t elements) {
            return static_cast<std::size_t>(elements) * size_of(dtype);
          };
          const auto shard_of_rank = [&](std::size_t rank) {
            const std::int64_t begin = std::min(count, static_cast<std::int64_t>(rank) * shard);
            return std::pair(bytes_of(begin), bytes_of(std::min(shard, count - begin)));
          };
          const auto input_at = [&](std::size_t rank) { return bytes_of(offsets[rank]); };
          const auto out_at = [&](std::size_t rank) { return bytes_of(offsets[(rank + 1) % ranks]); };
          std::vector<Buffer> outs;
          std::vector<const void*> sources;
          for (std::size_t me = 0; me < ranks; ++me) {
            outs.push_back(upload(std::vector<std::byte>(most * sizeof(std::int64_t), untouched)));
            sources.push_back(inputs[me].data_as<std::byte>() + input_at(me));
          }
          for (std::size_t me = 0; me < ranks; ++me) {
            start(me, by, exchange, sources[me], outs[me].data_as<std::byte>() + out_at(me));
          }
          std::vector<std::byte> whole(bytes_of(count));
          if (form == MailedForm::all_gather) {
            for (std::size_t rank = 0; rank < ranks; ++rank) {
              const auto [begin, bytes] = shard_of_rank(rank);
              const auto given = download<std::byte>(inputs[rank]);
              std::copy_n(given.begin() + static_cast<std::ptrdiff_t>(input_at(rank)), bytes,
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
            const std::size_t at = out_at(me);
            const auto got = download<std::byte>(outs[me]);
            for (std::size_t i = 0; i < got.size(); ++i) {
              const bool inside = i >= at && i < at + wanted.size();
              ASSERT_EQ(got[i], inside ? wanted[i - at] : untouched)
                  << name(dtype) << ", form " << static_cast<int>(form) << ", " << count << " elements in shards of "
                  << shard << ", offset " << offsets[me] << (by == By::packets ? ", in packets" : "") << ", rank " << me
                  << ", byte " << i;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(control_->failed, 0U);
}

TEST_P(MailedExchangeTest, SumsGoThroughBiasAndActivationAsThoseOfAReduction) {
  if (!device().exchanges_mail()) GTEST_SKIP() << "this device exchanges no mail";
  constexpr std::int64_t count = 3011;
  constexpr std::int64_t shard = 1008;
  constexpr std::int64_t columns = 23;
  const Buffer bias = upload(random_values<float>(random(), columns));
  std::vector<Buffer> inputs;
  std::vector<const void*> sources;
  for (std::size_t me = 0; me < ranks; ++me) {
    sources.push_back(inputs.emplace_back(upload(random_values<float>(random(), count))).data());
  }
  const Buffer sums = memory(count * sizeof(float));
  void* const to = sums.data();
  device().reduce(streams_[0], {.sources = sources,
                                .destinations = std::span(&to, 1),
                                .count = count,
                                .bias = bias.data(),
                                .columns = columns,
                                .activation = Activation::gelu_tanh});
  streams_[0].synchronize();
  const auto wanted = download<float>(sums);
  for (const By by : {By::mailboxes, By::packets}) {
    for (const MailedForm form : {MailedForm::one_shot, MailedForm::two_shot, MailedForm::reduce_scatter}) {
      const bool one_shot = form == MailedForm::one_shot;
      std::vector<Buffer> outs;
      for (std::size_t me = 0; me < ranks; ++me) {
        outs.push_back(memory(count * sizeof(float)));
        start(me, by,
              {.form = form,
               .count = count,
               .shard = one_shot ? 0 : shard,
               .length = one_shot ? count : shard,
               .dtype = f32,
               .bias = bias.data(),
               .columns = columns,
               .activation = Activation::gelu_tanh},
              sources[me], outs[me].data());
      }
      synchronize();
      for (std::size_t me = 0; me < ranks; ++me) {
        const bool own = form == MailedForm::reduce_scatter;
        const std::size_t begin = own ? me * static_cast<std::size_t>(shard) : 0;
        const std::size_t end = own ? std::min(wanted.size(), begin + static_cast<std::size_t>(shard)) : wanted.size();
        const auto got = download<float>(outs[me]);
        EXPECT_TRUE(std::equal(wanted.begin() + static_cast<std::ptrdiff_t>(begin),
                               wanted.begin() + static_cast<std::ptrdiff_t>(end), got.begin()))
            << "form " << static_cast<int>(form) << (by == By::packets ? ", in packets" : "") << ", rank " << me;
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
  const auto run = [&](MailedForm form, By by) {
    const bool one_shot = form == MailedForm::one_shot;
    for (std::size_t me = 0; me < ranks; ++me) {
      std::byte* const whole = tensors[me].data_as<std::byte>();
      std::byte* const own = whole + me * shard * sizeof(std::int32_t);
      start(me, by,
            {.form = form,
             .count = count,
             .shard = one_shot ? 0 : shard,
             .length = one_shot ? count : shard,
             .dtype = i32},
            form == MailedForm::all_gather ? own : whole, form == MailedForm::reduce_scatter ? own : whole);
    }
  };
  // The first two together are an all-reduce; each later one sums tensors that are equal on all ranks: times n.
  run(MailedForm::reduce_scatter, By::mailboxes);
  run(MailedForm::all_gather, By::packets);
  run(MailedForm::two_shot, By::packets);
  run(MailedForm::one_shot, By::mailboxes);
  run(MailedForm::two_shot, By::mailboxes);
  run(MailedForm::one_shot, By::packets);
  run(MailedForm::two_shot, By::packets);
  synchronize();
  constexpr auto n = static_cast<std::int32_t>(ranks);
  for (std::int32_t& sum : sums) sum *= n * n * n * n * n;
  for (std::size_t me = 0; me < ranks; ++me) EXPECT_EQ(download<std::int32_t>(tensors[me]), sums) << "rank " << me;
  EXPECT_EQ(control_->failed, 0U);
}

/// counts[from][to], in elements.
using Counts = std::array<std::array<std::int64_t, ranks>, ranks>;
constexpr std::array<Counts, 8> part_counts{{{{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}},
                                             {{{0, 3, 0}, {0, 0, 0}, {17, 0, 5}}},
                                             {{{400, 400, 400}, {400, 400, 400}, {400, 400, 400}}},
                                             {{{16, 0, 4096}, {48, 16, 0}, {0, 0, 0}}},
                                             {{{1000, 1, 999}, {0, 333, 4097}, {64, 65, 0}}},
                                             // from a root
                                             {{{0, 0, 0}, {5000, 5000, 5000}, {0, 0, 0}}},
                                             {{{36'016, 36'016, 36'016}, {36'016, 36'016, 36'016}, {36'016, 0, 16}}},
                                             {{{0, 36'001, 20'000}, {1, 0, 36'015}, {35'999, 7, 3}}}}};

TEST_P(MailedExchangeTest, PartsOfAllLengthsComeWhereTheyBelong) {
  if (!device().exchanges_mail()) GTEST_SKIP() << "this device exchanges no mail";
  constexpr std::int64_t most = 3 * 36'016 + 64;
  for (const DType dtype : {u8, bf16, i32, f64}) {
    const std::size_t element = size_of(dtype);
    std::vector<std::vector<std::byte>> given;
    std::vector<Buffer> inputs;
    for (std::size_t me = 0; me < ranks; ++me) {
      given.push_back(random_bytes(most * element));
      inputs.push_back(upload(given.back()));
    }
    for (const Counts& counts : part_counts) {
      for (const auto& [offsets, by] : placements) {
        for (const bool broadcasts : {false, true}) {  // the same part to all, from the input's beginning
          std::int64_t longest_part = 0;
          for (const auto& row : counts) longest_part = std::max(longest_part, *std::ranges::max_element(row));
          std::vector<Buffer> outs;
          std::vector<std::vector<std::byte>> wanted;
          std::array<std::array<MailedPart, ranks>, ranks> parts{};  // outlive the runs
          for (std::size_t me = 0; me < ranks; ++me) {
            wanted.emplace_back(most * element, untouched);
            outs.push_back(upload(wanted.back()));
          }
          for (std::size_t me = 0; me < ranks; ++me) {
            auto from = static_cast<std::size_t>(offsets[me]) * element;
            auto to = static_cast<std::size_t>(offsets[(me + 1) % ranks]) * element;
            for (std::size_t rank = 0; rank < ranks; ++rank) {
              MailedPart& part = parts[me][rank];
              part = {.from = inputs[me].data_as<std::byte>() + from,
                      .sent = counts[me][rank],
                      .to = outs[me].data_as<std::byte>() + to,
                      .received = counts[rank][me]};
              if (!broadcasts) from += static_cast<std::size_t>(part.sent) * element;
              std::size_t begin = static_cast<std::size_t>(offsets[rank]) * element;  // of the part in that input
              for (std::size_t before = 0; before < me && !broadcasts; ++before) {
                begin += static_cast<std::size_t>(counts[rank][before]) * element;
              }
              const std::size_t bytes = static_cast<std::size_t>(part.received) * element;
              std::copy_n(given[rank].begin() + static_cast<std::ptrdiff_t>(begin), bytes,
                          wanted[me].begin() + static_cast<std::ptrdiff_t>(to));
              to += bytes;
            }
            start(me, by, {.form = MailedForm::parts, .length = longest_part, .parts = parts[me], .dtype = dtype},
                  nullptr, nullptr);
          }
          synchronize();
          for (std::size_t me = 0; me < ranks; ++me) {
            const auto got = download<std::byte>(outs[me]);
            const auto at = std::ranges::mismatch(got, wanted[me]).in1 - got.begin();
            ASSERT_EQ(got, wanted[me]) << name(dtype) << ", counts " << &counts - part_counts.data()
                                       << (by == By::packets ? ", in packets" : "")
                                       << (broadcasts ? ", the same to all" : "") << ", rank " << me << ", byte " << at;
          }
        }
      }
    }
  }
  EXPECT_EQ(control_->failed, 0U);
}

// Mostly ranks 0 and 2 alternate as roots, so each receives from the other in between, and rank 1 is late: waiting for
// its empty messages is all that keeps them from overwriting its mailboxes.
TEST_P(MailedExchangeTest, NoRootIsTwoExchangesAheadOfALateReader) {
  if (!device().exchanges_mail()) GTEST_SKIP() << "this device exchanges no mail";
  constexpr std::size_t runs = 40;
  for (const By by : {By::mailboxes, By::packets, By::mailboxes}) {
    std::vector<Buffer> inputs;
    std::vector<Buffer> outs;
    for (std::size_t me = 0; me < ranks; ++me) {
      std::vector<std::int32_t> values(runs);
      for (std::size_t i = 0; i < runs; ++i) values[i] = static_cast<std::int32_t>(1000 * i + me);
      inputs.push_back(upload(values));
      outs.push_back(upload(std::vector<std::int32_t>(runs, -1)));
    }
    const auto root_of = [](std::size_t run) { return run % 7 == 6 ? std::size_t{1} : run % 2 * 2; };
    std::array<std::array<std::array<MailedPart, ranks>, ranks>, runs> parts{};
    device().launch(streams_[1], [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
    for (std::size_t i = 0; i < runs; ++i) {  // run by run, since streams may share a hardware queue
      for (std::size_t me = 0; me < ranks; ++me) {
        auto& mine = parts[i][me];
        if (me == root_of(i)) {
          for (MailedPart& part : mine) part = {.from = inputs[me].data_as<std::int32_t>() + i, .sent = 1};
        }
        mine[root_of(i)].to = outs[me].data_as<std::int32_t>() + i;
        mine[root_of(i)].received = 1;
        start(me, by, {.form = MailedForm::parts, .length = 1, .parts = mine, .dtype = i32}, nullptr, nullptr);
      }
    }
    synchronize();
    for (std::size_t me = 0; me < ranks; ++me) {
      const auto got = download<std::int32_t>(outs[me]);
      for (std::size_t i = 0; i < runs; ++i) {
        EXPECT_EQ(got[i], static_cast<std::int32_t>(1000 * i + root_of(i))) << "rank " << me << ", run " << i;
      }
    }
  }
  EXPECT_EQ(control_->failed, 0U);
}

TEST_P(MailedExchangeTest, NobodyOverwritesWhatALateRankHasNotRead) {
  if (!device().exchanges_mail()) GTEST_SKIP() << "this device exchanges no mail";
  constexpr std::size_t runs = 40;
  for (const By by : {By::mailboxes, By::packets}) {
    for (const MailedForm form : {MailedForm::two_shot, MailedForm::reduce_scatter}) {
      std::vector<Buffer> inputs;
      std::vector<Buffer> outs;
      for (std::size_t me = 0; me < ranks; ++me) {
        std::vector<std::int32_t> values(runs);
        for (std::size_t i = 0; i < runs; ++i) values[i] = static_cast<std::int32_t>(1000 * i + me);
        inputs.push_back(upload(values));
        outs.push_back(upload(std::vector<std::int32_t>(runs, -1)));
      }
      // With one element only rank 0 has a shard: in reduce_scatter only its empty message holds its peers back.
      device().launch(streams_[0], [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
      for (std::size_t i = 0; i < runs; ++i) {  // run by run, since streams may share a hardware queue
        for (std::size_t me = 0; me < ranks; ++me) {
          start(me, by, {.form = form, .count = 1, .shard = 1, .length = 1, .dtype = i32},
                inputs[me].data_as<std::int32_t>() + i, outs[me].data_as<std::int32_t>() + i);
        }
      }
      synchronize();
      const auto sums = download<std::int32_t>(outs[0]);
      for (std::size_t i = 0; i < runs; ++i) EXPECT_EQ(sums[i], 3000 * static_cast<std::int32_t>(i) + 3) << "run " << i;
    }
  }
  EXPECT_EQ(control_->failed, 0U);
}

TEST_P(MailedExchangeTest, TheRecordNamesWhoDidNotSend) {
  if (!device().exchanges_mail()) GTEST_SKIP() << "this device exchanges no mail";
  control_->timeout_ns = 30'000'000;
  const Buffer data = upload(std::vector<float>(100, 1.0F));
  for (const By by : {By::mailboxes, By::packets}) {
    control_->abort = 0;
    control_->failed = 0;
    for (const std::size_t me : {0U, 1U}) {
      start(me, by, {.form = MailedForm::two_shot, .count = 100, .shard = 36, .length = 36, .dtype = f32}, data.data(),
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
}

TANDEM_ON_EACH_DEVICE(MailedExchangeTest);

}  // namespace
}  // namespace tandem::testing
