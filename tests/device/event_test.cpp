// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/event.hpp"

#include <atomic>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"

#include "device/on_device.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;

class EventTest : public OnDevice {
 protected:
  // Queues work that ends when `go_` is set, and then sets `passed_`.
  void block(StreamRef stream) {
    device().launch(stream, [this] {
      while (!go_.load()) std::this_thread::yield();
      passed_.store(true);
    });
  }
  std::atomic<bool> go_{false};
  std::atomic<bool> passed_{false};
};

TEST_P(EventTest, NeverRecordedCountsAsPassed) {
  Stream stream(device());
  Event event(device());
  EXPECT_TRUE(event.query());
  event.synchronize();
  event.wait(stream);
  stream.synchronize();
}

TEST_P(EventTest, OneThatWasMovedFromSaysSo) {
  Stream stream(device());
  Event event(device());
  Event moved(device());
  moved = std::move(event);
  EXPECT_TRUE(moved.query());
  // NOLINTBEGIN(bugprone-use-after-move)
  for (const std::function<void()>& use : std::vector<std::function<void()>>{
           [&] { event.record(stream); }, [&] { event.wait(stream); }, [&] { static_cast<void>(event.query()); },
           [&] { event.synchronize(); }, [&] { static_cast<void>(event.elapsed_since(moved)); },
           [&] { static_cast<void>(moved.elapsed_since(event)); }}) {
    expect_error<InvalidArgument>(use, {"moved from"});
  }
  // NOLINTEND(bugprone-use-after-move)
}

TEST_P(EventTest, MakesAnotherStreamWait) {
  if (!on_host()) GTEST_SKIP() << "CUDA runs host functions of all streams on one thread";
  Stream early(device());
  Stream late(device());
  Event event(device());
  bool right = false;
  block(early);
  event.record(early);
  event.wait(late);
  device().launch(late, [&] { right = passed_.load(); });
  EXPECT_FALSE(event.query());
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(late.query());
  go_.store(true);
  late.synchronize();
  EXPECT_TRUE(right);
  EXPECT_TRUE(event.query());
}

TEST_P(EventTest, OrdersCopies) {
  constexpr std::size_t bytes = std::size_t{4} << 20;
  Stream first(device());
  Stream second(device());
  Event event(device());
  for (int round = 0; round < 20; ++round) {
    const std::vector<std::byte> data = random_bytes(bytes);
    Buffer source = upload(data);
    Buffer middle = memory(bytes);
    Buffer target = memory(bytes);
    device().copy(first, {.dst = middle.data(), .src = source.data(), .bytes = bytes});
    order_after(second, first, event);
    device().copy(second, {.dst = target.data(), .src = middle.data(), .bytes = bytes});
    second.synchronize();
    const Comparison comparison = compare_bytes(data, download<std::byte>(target).data());
    ASSERT_EQ(comparison.wrong, 0) << to_string(comparison);
    first.synchronize();
  }
}

TEST_P(EventTest, RecordingAgainLeavesEarlierWaitsAlone) {
  if (!on_host()) GTEST_SKIP() << "CUDA runs host functions of all streams on one thread";
  Stream early(device());
  Stream late(device());
  Stream other(device());
  Event event(device());
  bool right = false;
  block(early);
  event.record(early);
  event.wait(late);
  device().launch(late, [&] { right = passed_.load(); });
  event.record(other);  // complete at once, but `late` still waits for the first record
  EXPECT_TRUE(event.query());
  std::this_thread::sleep_for(2ms);
  EXPECT_FALSE(late.query());
  go_.store(true);
  late.synchronize();
  EXPECT_TRUE(right);
}

TEST_P(EventTest, AWaitIsForWhatWasRecordedBeforeIt) {
  // A stream that waits for the event must not wait for work that was queued after the event was recorded.
  if (!on_host()) GTEST_SKIP() << "CUDA runs host functions of all streams on one thread";
  Stream early(device());
  Stream late(device());
  Event event(device());
  event.record(early);
  block(early);
  event.wait(late);
  late.synchronize();
  EXPECT_FALSE(passed_.load());
  go_.store(true);
  early.synchronize();
}

TEST_P(EventTest, OutlivesItsStream) {
  Event event(device());
  const auto ran = std::make_shared<std::atomic<bool>>(false);  // the function may end after this test if that fails
  const auto seen = std::make_shared<std::atomic<bool>>(false);
  {
    Stream stream(device());
    device().launch(stream, [ran] {
      std::this_thread::sleep_for(5ms);
      ran->store(true);
    });
    event.record(stream);
  }
  Stream other(device());
  event.wait(other);
  device().launch(other, [ran, seen] { seen->store(ran->load()); });
  event.synchronize();
  EXPECT_TRUE(ran->load());
  EXPECT_TRUE(event.query());
  other.synchronize();
  EXPECT_TRUE(seen->load());
}

TEST_P(EventTest, PassesAFailureOnThatItsStreamHasReportedSince) {
  if (!on_host()) GTEST_SKIP() << "a CUDA stream continues after a function that threw";
  Stream early(device());
  Stream late(device());
  Event event(device());
  const auto fail = [&](const char* why) { device().launch(early, [why] { throw std::runtime_error(why); }); };
  block(late);
  fail("first");
  event.record(early);
  event.wait(late);
  expect_error<std::runtime_error>([&] { early.synchronize(); }, {"first"});
  fail("second");
  expect_error<std::runtime_error>([&] { early.synchronize(); }, {"second"});
  go_.store(true);
  expect_error<std::runtime_error>([&] { late.synchronize(); }, {"first"});
}

TEST_P(EventTest, PassesNothingOnToWhatWaitsAfterTheReport) {
  if (!on_host()) GTEST_SKIP() << "a CUDA stream continues after a function that threw";
  Stream early(device());
  Stream late(device());
  Event event(device());
  const auto fail = [&] { device().launch(early, [] { throw std::runtime_error("no input"); }); };
  fail();
  event.record(early);
  EXPECT_THROW(early.synchronize(), std::runtime_error);
  event.wait(late);
  late.synchronize();
  event.record(early);
  fail();
  Event failed(device());
  failed.record(early);
  failed.synchronize();
  event.wait(late);  // recorded before the second failure
  late.synchronize();
  EXPECT_THROW(early.synchronize(), std::runtime_error);
}

TEST_P(EventTest, TellsTime) {
  Stream stream(device());
  Event begin(device(), Event::Timing::on);
  Event end(device(), Event::Timing::on);
  begin.record(stream);
  device().launch(stream, [] { std::this_thread::sleep_for(20ms); });
  end.record(stream);
  end.synchronize();
  EXPECT_GE(end.elapsed_since(begin), 19.0);
  EXPECT_LT(end.elapsed_since(begin), 30'000.0);
  EXPECT_DOUBLE_EQ(begin.elapsed_since(end), -end.elapsed_since(begin));
}

TEST_P(EventTest, RefusesToTellATimeThatItDoesNotHave) {
  Stream stream(device());
  Event timed(device(), Event::Timing::on);
  const Event never(device(), Event::Timing::on);
  Event untimed(device());
  timed.record(stream);
  untimed.record(stream);
  stream.synchronize();
  for (const Event* without : {&never, static_cast<const Event*>(&untimed)}) {
    expect_error<InvalidArgument>([&] { static_cast<void>(timed.elapsed_since(*without)); }, {"elapsed time"});
    expect_error<InvalidArgument>([&] { static_cast<void>(without->elapsed_since(timed)); }, {"elapsed time"});
  }
  Event later(device(), Event::Timing::on);
  block(stream);
  later.record(stream);
  expect_error<InvalidArgument>([&] { static_cast<void>(later.elapsed_since(timed)); }, {"elapsed time"});
  go_ = true;
  stream.synchronize();
  EXPECT_GE(later.elapsed_since(timed), 0.0);
}

TANDEM_ON_EACH_DEVICE(EventTest);

}  // namespace
}  // namespace tandem::testing
