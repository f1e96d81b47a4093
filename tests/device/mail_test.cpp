// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/mail.hpp"

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

#include "tandem/base/error.hpp"

#include "device/corked.hpp"
#include "device/with_control.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

constexpr std::size_t longest_letter = 300;

class MailTest : public WithControl {
 protected:
  /// `count` contiguous mailboxes.
  [[nodiscard]] Buffer mailboxes(std::size_t count) const {
    return upload(std::vector<std::byte>(count * mailbox_bytes(longest_letter)));
  }
  [[nodiscard]] static SignalWord* mailbox(const Buffer& boxes, std::size_t i) {
    return reinterpret_cast<SignalWord*>(boxes.data_as<std::byte>() + i * mailbox_bytes(longest_letter));
  }
  [[nodiscard]] static const std::byte* mail_in(const SignalWord* box) {
    return reinterpret_cast<const std::byte*>(box) + mail_offset;
  }
};

TEST_P(MailTest, CarriesMessagesOfAllLengthsBothWays) {
  if (!device().sends_letters()) GTEST_SKIP() << "this device sends no letters";
  // Two ranks, each with a device and a stream; two mailboxes in each direction, used alternately.
  const Buffer boxes = mailboxes(4);
  const std::vector<std::byte> data = random_bytes(2 * (longest_letter + 1));
  const auto rank_main = [&](std::size_t me, int& wrong) {
    const auto own = open_device({});
    const Stream stream(*own);
    const std::size_t peer = 1 - me;
    std::vector<std::byte> got(longest_letter);
    for (std::size_t bytes = 0; bytes <= longest_letter; ++bytes) {
      const std::size_t turn = 2 * (bytes % 2);
      SignalWord* const mine = mailbox(boxes, turn + me);
      const Letter letter{.message = &data[me * (longest_letter + 1) + longest_letter - bytes],
                          .bytes = bytes,
                          .put = {.mine = mine, .theirs = mailbox(boxes, turn + peer)},
                          .wait = {.word = mine, .peer = static_cast<int>(peer)}};
      const void* const source = mail_in(mine);
      const MailPlace place{got.data(), bytes};
      own->mail(stream, {&letter, 1}, {.sources = {&source, 1}, .places = {&place, 1}}, control_);
      stream.synchronize();
      wrong += std::memcmp(got.data(), &data[peer * (longest_letter + 1) + longest_letter - bytes], bytes) == 0 ? 0 : 1;
    }
  };
  int wrong[2] = {0, 0};
  std::thread other([&] { rank_main(1, wrong[1]); });
  rank_main(0, wrong[0]);
  other.join();
  EXPECT_EQ(wrong[0], 0);
  EXPECT_EQ(wrong[1], 0);
  EXPECT_EQ(control_->failed, 0U);
}

TEST_P(MailTest, WritesNoByteBesideTheMessages) {
  if (!device().sends_letters()) GTEST_SKIP() << "this device sends no letters";
  Buffer boxes = mailboxes(3);
  const std::vector<std::byte> data = random_bytes(longest_letter);
  const std::array<std::size_t, 3> lengths{longest_letter, 0, 49};
  std::vector<Letter> letters;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    SignalWord* const box = mailbox(boxes, i);  // to itself: what it waits for is what it sends
    letters.push_back(
        {.message = data.data(), .bytes = lengths[i], .put = {.mine = box, .theirs = box}, .wait = {.word = box}});
  }
  const Stream stream(device());
  device().mail(stream, letters, {}, control_);
  device().mail(stream, {}, {}, control_);
  stream.synchronize();
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const SignalWord* const box = mailbox(boxes, i);
    EXPECT_EQ(box->value, 1U);
    EXPECT_EQ(box->put, 1U);
    EXPECT_EQ(box->taken, 1U);
    EXPECT_EQ(box->sleepers, 0U);
    EXPECT_EQ(std::memcmp(mail_in(box), data.data(), lengths[i]), 0);
    for (std::size_t at = mail_offset + lengths[i]; at < mailbox_bytes(longest_letter); ++at) {
      ASSERT_EQ(reinterpret_cast<const std::byte*>(box)[at], std::byte{}) << i << " " << at;
    }
  }
}

TEST_P(MailTest, MessagesAreAddedUpInTheirOrder) {
  if (!device().sends_letters()) GTEST_SKIP() << "this device sends no letters";
  const Buffer boxes = mailboxes(2);
  // The first two cancel exactly only if they are added before the third; otherwise the small value is lost.
  const std::vector<float> values{1e8F, -1e8F, 1.0F};
  std::vector<Letter> letters;
  std::vector<const void*> sources;
  for (std::size_t i = 0; i < 2; ++i) {
    SignalWord* const box = mailbox(boxes, i);  // to itself
    letters.push_back(
        {.message = &values[i], .bytes = sizeof(float), .put = {.mine = box, .theirs = box}, .wait = {.word = box}});
    sources.push_back(mail_in(box));
  }
  sources.push_back(&values[2]);
  float sum = std::nanf("");
  const Stream stream(device());
  device().mail(stream, letters, {.sources = sources, .out = &sum, .count = 1, .dtype = f32}, control_);
  stream.synchronize();
  EXPECT_EQ(sum, 1.0F);
}

TEST_P(MailTest, MessagesArePutInPlacesOfTheirOwnAsFarAsThereIsRoom) {
  if (!device().sends_letters()) GTEST_SKIP() << "this device sends no letters";
  const Buffer boxes = mailboxes(3);
  const std::vector<std::byte> data = random_bytes(3 * 10);
  std::vector<Letter> letters;
  std::vector<const void*> sources;
  for (std::size_t i = 0; i < 3; ++i) {
    SignalWord* const box = mailbox(boxes, i);  // to itself
    letters.push_back(
        {.message = &data[10 * i], .bytes = 10, .put = {.mine = box, .theirs = box}, .wait = {.word = box}});
    sources.push_back(mail_in(box));
  }
  constexpr std::byte untouched{0x5a};
  for (const std::size_t total : {34U, 24U, 15U, 3U}) {  // all; two; one and a part; a part of one
    std::vector<std::byte> out(40, untouched);
    std::vector<std::byte> expected = out;
    for (std::size_t i = 0; i < total; ++i) {
      if (i % 12 < 10) expected[i] = data[10 * (i / 12) + i % 12];
    }
    std::vector<MailPlace> places;
    for (std::size_t begin = 0; begin < 36; begin += 12) {
      places.push_back({out.data() + begin, begin < total ? std::min<std::size_t>(total - begin, 10) : 0});
    }
    const Stream stream(device());
    device().mail(stream, letters, {.sources = sources, .places = places}, control_);
    stream.synchronize();
    EXPECT_EQ(out, expected) << total;
  }
}

// Sending early saves the peer time, but a letter must still follow earlier work on its stream and the events that the
// stream waits for.
TEST_P(MailTest, ALetterSetsOutAtOnceUnlessSomethingComesBeforeIt) {
  if (!device().sends_letters()) GTEST_SKIP() << "this device sends no letters";
  const Buffer boxes = mailboxes(1);
  SignalWord* const box = mailbox(boxes, 0);  // to itself
  int message = 1;
  const Letter letter{
      .message = &message, .bytes = sizeof(message), .put = {.mine = box, .theirs = box}, .wait = {.word = box}};
  const Stream stream(device());
  const auto sent = [&] { return std::atomic_ref(box->value).load(); };
  const auto got = [&] {
    stream.synchronize();
    int value = 0;
    std::memcpy(&value, mail_in(box), sizeof(value));
    return value;
  };
  const auto mail = [&] { device().mail(stream, {&letter, 1}, {}, control_); };
  mail();
  EXPECT_EQ(sent(), 1U);
  EXPECT_EQ(got(), 1);

  std::atomic<bool> released{false};
  const auto writes = [&](int value) {
    return [&, value] {
      while (!released.load()) std::this_thread::yield();
      message = value;
    };
  };
  device().launch(stream, writes(2));
  mail();
  EXPECT_EQ(sent(), 1U);
  released.store(true);
  EXPECT_EQ(got(), 2);

  released.store(false);
  const Stream other(device());
  Event written(device());
  device().launch(other, writes(3));
  order_after(stream, other, written);
  mail();
  EXPECT_EQ(sent(), 2U);
  released.store(true);
  EXPECT_EQ(got(), 3);

  {
    const Corked corked(device(), stream);
    device().fill(stream, &message, std::byte{4}, sizeof(message));
    mail();
  }
  EXPECT_EQ(got(), 0x04040404);
}

TEST_P(MailTest, TheRecordNamesWhoDidNotWrite) {
  if (!device().sends_letters()) GTEST_SKIP() << "this device sends no letters";
  const Buffer boxes = mailboxes(4);
  control_->timeout_ns = 30'000'000;
  const Letter letters[] = {
      {.put = {.mine = mailbox(boxes, 0), .theirs = mailbox(boxes, 0)}, .wait = {.word = mailbox(boxes, 0), .peer = 4}},
      {.put = {.mine = mailbox(boxes, 1), .theirs = mailbox(boxes, 2)},
       .wait = {.word = mailbox(boxes, 1), .peer = 5, .channel = 2, .operation = 9}}};
  const Stream stream(device());
  device().mail(stream, letters, {}, control_);
  stream.synchronize();
  EXPECT_EQ(control_->abort, 1U);
  ASSERT_EQ(control_->failed, 2U);
  EXPECT_EQ(control_->failure.peer, 5);
  EXPECT_EQ(control_->failure.channel, 2U);
  EXPECT_EQ(control_->failure.operation, 9U);
  EXPECT_EQ(control_->failure.expected, 1U);
  EXPECT_EQ(control_->failure.seen, 0U);
}

TEST_P(MailTest, ADeviceSaysWhetherItSendsLetters) {
  const Buffer box = mailboxes(1);
  const Stream stream(device());
  const Letter letter{.put = {.mine = mailbox(box, 0), .theirs = mailbox(box, 0)}, .wait = {.word = mailbox(box, 0)}};
  const auto mail = [&] { device().mail(stream, {&letter, 1}, {}, control_); };
  if (device().sends_letters()) {
    mail();
    stream.synchronize();
  } else {
    expect_error<Unsupported>(mail, {"sends no letters"});
  }
  EXPECT_EQ(control_->failed, 0U);
  EXPECT_EQ(device().sends_letters(), on_host());
}

TANDEM_ON_EACH_DEVICE(MailTest);

}  // namespace
}  // namespace tandem::testing
