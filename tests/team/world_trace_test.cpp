// SPDX-License-Identifier: Apache-2.0
// The trace that all ranks of a world write to one file, TANDEM_TRACE.
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/trace_range.hpp"
#include "tandem/team/world.hpp"

#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/ranks.hpp"
#include "support/temporary_folder.hpp"
#include "team/another_world.hpp"

namespace tandem {
namespace {

using testing::another;
using testing::expect_says;
using testing::RankOptions;
using testing::refusal;
using testing::run_ranks;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(WorldTrace, WritesOneTraceOfAllRanks) {
  const std::string path = ::testing::TempDir() + "tandem-trace-" + std::to_string(::getpid()) + ".json";
  for (const int ranks : {3, 1, 4}) {  // each job's trace replaces the previous one
    const auto traced = [](World& world) {
      const Stream stream(world.device());
      {
        const TraceRange range(world.device(), stream, "a range", TraceKind::compute);
      }
      world.team().synchronize(stream);
    };
    RankOptions options;
    options.env.trace = path;
    run_ranks(ranks, traced, options);
    const std::string text = testing::contents_of(path);
    EXPECT_TRUE(text.starts_with("{") && text.ends_with("}\n]}\n")) << text;
    EXPECT_EQ(count(text, "traceEvents"), 1U) << text;
    EXPECT_EQ(count(text, R"("name":"a range")"), static_cast<std::size_t>(ranks)) << text;
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(count(text, "\"name\":\"rank " + std::to_string(rank) + "\""), 1U) << text;
    }
  }
  std::filesystem::remove(path);
}

TEST(WorldTrace, TheTraceOfAnEarlierRunIsReplacedEvenIfItsJobHadTheSameName) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "under ThreadSanitizer all runs are one process";
#endif
  const std::string path = ::testing::TempDir() + "tandem-runs-" + std::to_string(::getpid()) + ".json";
  const std::string job = "test.runs." + std::to_string(::getpid());
  for (int run = 0; run < 2; ++run) {
    run_ranks(2, [&](World& world) {
      InitOptions options = another(world, "");
      options.launch->job = job;
      options.env->trace = path;
      for (int round = 0; round < 3; ++round) init(options).team().barrier();
    });
    const std::string text = testing::contents_of(path);
    for (const char* rank : {"rank 0", "rank 1"}) {  // the worlds of one run share a trace
      EXPECT_EQ(count(text, std::string("\"name\":\"") + rank + "\""), 3U) << text;
    }
  }
  std::filesystem::remove(path);
}

/// Makes another world of this one rank, which writes one range to the trace at `path`, calls `at_last` and ends.
void trace_alone(const World& world, const std::string& path, const std::function<void()>& at_last = [] {}) {
  InitOptions options = another(world, ".traced");
  options.env->trace = path;
  options.env->log = LogLevel::none;
  const World traced = init(options);
  {
    const Stream stream(traced.device());
    const TraceRange range(traced.device(), stream, "a \"range\" of }{", TraceKind::compute);
  }
  at_last();
}

/// Expects `text` to be a complete document with one event on each line, from `worlds` worlds.
void expect_whole(const std::string& text, std::size_t worlds) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  ASSERT_GE(lines.size(), 3U) << text;
  EXPECT_TRUE(lines.front().starts_with("{\"displayTimeUnit") && lines.front().ends_with("[")) << text;
  EXPECT_EQ(lines.back(), "]}") << text;
  for (std::size_t i = 1; i + 1 < lines.size(); ++i) {
    EXPECT_TRUE(lines[i].starts_with("{\"ph\":") && lines[i].ends_with(i + 2 < lines.size() ? "}," : "}")) << text;
    EXPECT_EQ(count(lines[i], "{"), count(lines[i], "}")) << text;
  }
  EXPECT_EQ(count(text, R"("name":"rank 0")"), worlds) << text;
}

TEST(WorldTrace, ATraceIsWholeAgainAfterARankThatWasKilledWritingIt) {
  run_ranks(1, [](World& world) {
    const std::string path = ::testing::TempDir() + "tandem-killed-" + std::to_string(::getpid()) + ".json";
    trace_alone(world, path);
    const std::string first = testing::contents_of(path);
    expect_whole(first, 1);
    trace_alone(world, path);
    const std::string both = testing::contents_of(path);
    expect_whole(both, 2);
    const std::size_t place = first.size() - 4;  // where the second world's events begin
    const std::size_t complete = both.find('\n', place + 2);
    for (std::size_t written = 1; place + written < both.size(); ++written) {
      std::string killed = first;
      killed.replace(place, std::min(written, killed.size() - place), both, place, written);
      std::ofstream(path, std::ios::trunc) << killed;
      trace_alone(world, path);
      // The killed world is one of them if its first event, which names its rank, was written completely.
      expect_whole(testing::contents_of(path), place + written + 1 >= complete ? 3 : 2);
      if (HasFailure()) FAIL() << "after " << written << " bytes: " << killed;
    }
    std::filesystem::remove(path);
  });
}

TEST(WorldTrace, ATraceStaysWholeWhenARankCannotWriteToIt) {
  run_ranks(1, [](World& world) {
    const std::string path = ::testing::TempDir() + "tandem-full-" + std::to_string(::getpid()) + ".json";
    trace_alone(world, path);
    const std::string first = testing::contents_of(path);
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    trace_alone(world, path, [&] {  // as on a disk that becomes full
      rlimit low = before;
      low.rlim_cur = first.size() + 7;
      EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
    });
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    ::signal(SIGXFSZ, SIG_DFL);
    EXPECT_EQ(testing::contents_of(path), first);
    trace_alone(world, path);
    expect_whole(testing::contents_of(path), 2);
    std::filesystem::remove(path);
  });
}

TEST(WorldTrace, ThereIsNoTraceBeforeAWorldEnds) {
  run_ranks(1, [](World& world) {
    const testing::TemporaryFolder folder;
    const std::string path = folder.at("trace.json");
    trace_alone(world, path, [&] { EXPECT_TRUE(std::filesystem::is_empty(folder.at(""))); });
    const std::string first = testing::contents_of(path);
    expect_whole(first, 1);
    trace_alone(world, path, [&] { EXPECT_EQ(testing::contents_of(path), first); });
  });
}

TEST(WorldTrace, ATraceIsWhereItWasToBeEvenIfTheProgramHasChangedItsFolder) {
  run_ranks(1, [](World& world) {
    const testing::TemporaryFolder folder;
    const std::filesystem::path before = std::filesystem::current_path();
    std::filesystem::current_path(folder.at(""));
    trace_alone(world, "trace.json", [&] { std::filesystem::current_path(before); });
    expect_whole(testing::contents_of(folder.at("trace.json")), 1);
  });
}

TEST(WorldTrace, ATraceThatCannotBeWrittenIsAnErrorAtOnce) {
  run_ranks(1, [](World& world) {
    InitOptions options = another(world, ".traced");
    options.env->trace = "/nowhere/rank%r.json";
    expect_says(refusal<InvalidArgument>(options), {"TANDEM_TRACE", "rank 0", "'/nowhere/rank0.json'"});
    options.env->trace = "/proc/trace.json";  // a folder in which root, too, can create nothing
    expect_says(refusal<InvalidArgument>(options), {"TANDEM_TRACE", "rank 0", "'/proc/trace.json'"});
  });
}

}  // namespace
}  // namespace tandem
