// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/trace_range.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <optional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "device/on_device.hpp"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;

class TraceRangeTest : public OnDevice {
 protected:
  void pause(StreamRef stream) {
    device().launch(stream, [] { std::this_thread::sleep_for(5ms); });
  }
};

TEST_P(TraceRangeTest, AddsNothingWhileOff) {
  Stream stream(device());
  {
    const TraceRange range(device(), stream, "nothing", TraceKind::other);
    pause(stream);
  }
  stream.synchronize();
  device().trace_collect();
  EXPECT_TRUE(device().trace().events().empty());
}

TEST_P(TraceRangeTest, MayBeOpenInAForkedChild) {
  if (!on_host()) GTEST_SKIP() << "a child of a process that has started CUDA can do nothing with it";
  device().trace().enable(true);
  const Stream stream(device());
  std::optional<TraceRange> range(std::in_place, device(), stream, "the parent's", TraceKind::other);
  const pid_t child = ::fork();
  if (child == 0) {
    range.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  range.reset();
  device().trace_collect();
  EXPECT_EQ(device().trace().events().size(), 1U);
}

TEST_P(TraceRangeTest, NestsAndTellsTime) {
  device().trace().enable(true);
  Stream stream(device());
  Stream other(device());
  const std::int64_t before = Trace::now_ns();
  {
    const TraceRange outer(device(), stream, "outer", TraceKind::communication);
    pause(stream);
    {
      const TraceRange inner(device(), stream, "inner", TraceKind::compute);
      pause(stream);
    }
    const TraceRange beside(device(), other, "beside", TraceKind::wait);
    pause(other);
  }
  stream.synchronize();
  other.synchronize();
  device().trace_collect();
  const std::int64_t after = Trace::now_ns();
  const auto events = device().trace().events();
  ASSERT_EQ(events.size(), 3U);
  const auto find = [&](const std::string& name) {
    return *std::find_if(events.begin(), events.end(), [&](const TraceEvent& event) { return event.name == name; });
  };
  const TraceEvent outer = find("outer");
  const TraceEvent inner = find("inner");
  const TraceEvent beside = find("beside");
  EXPECT_EQ(outer.kind, TraceKind::communication);
  EXPECT_EQ(inner.kind, TraceKind::compute);
  EXPECT_EQ(outer.track, inner.track);
  EXPECT_NE(outer.track, beside.track);
  EXPECT_LE(outer.begin_ns, inner.begin_ns);
  EXPECT_LE(inner.end_ns, outer.end_ns);
  EXPECT_GE(inner.end_ns - inner.begin_ns, 4'000'000);
  EXPECT_GE(outer.end_ns - outer.begin_ns, 9'000'000);
  constexpr std::int64_t clock_slack = 2'000'000;  // error of converting CUDA's clock to the host's
  EXPECT_GE(outer.begin_ns, before - clock_slack);
  EXPECT_LE(outer.end_ns, after + clock_slack);
}

TANDEM_ON_EACH_DEVICE(TraceRangeTest);

}  // namespace
}  // namespace tandem::testing
