// SPDX-License-Identifier: Apache-2.0
#include "tandem/collective/plan_cache.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tandem/base/error.hpp"

#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/temporary_folder.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using testing::contents_of;
using testing::expect_error;
using testing::expect_says;

/// Gives each test a folder of its own, and a log that can be read.
class PlanCaches : public ::testing::Test {
 protected:
  [[nodiscard]] std::string at(const std::string& name) const { return folder_.at(name); }
  [[nodiscard]] std::string write(const std::string& text) const {
    std::ofstream(at("plans")) << text;
    return at("plans");
  }
  [[nodiscard]] const Log& log() const { return log_; }
  [[nodiscard]] std::string logged() const { return contents_of(at("log")); }

 private:
  testing::TemporaryFolder folder_;
  Log log_{LogLevel::warn, at("log"), 0};
};

const TunedChoice some{.algorithm = "pipeline", .groups = 3, .seconds = 1.5e-3};
const TunedChoice other{.algorithm = "sequence", .groups = 0, .seconds = 2e-3};

TEST_F(PlanCaches, FindWhatWasKept) {
  const PlanCache cache(at("a/folder/plans"));
  EXPECT_FALSE(cache.find("one", log()));
  cache.keep("one", some);
  cache.keep("two", other);
  const PlanCache again(cache.path());
  EXPECT_EQ(again.find("one", log()), some);
  EXPECT_EQ(again.find("two", log()), other);
  EXPECT_FALSE(again.find("three", log()));
  EXPECT_EQ(again.size(), 2U);
  cache.keep("one", other);
  EXPECT_EQ(again.find("one", log()), other);
  EXPECT_EQ(again.find("two", log()), other);
  EXPECT_EQ(logged(), "");
  // The folder holds the file and nothing else.
  EXPECT_EQ(std::distance(fs::directory_iterator(at("a/folder")), fs::directory_iterator()), 1);
}

TEST_F(PlanCaches, AreNowhereWithoutAPath) {
  const PlanCache none("");
  EXPECT_FALSE(none.find("one", log()));
  EXPECT_EQ(none.trouble(), "");
  expect_error<InvalidArgument>([&] { none.keep("one", some); }, {"TANDEM_PLAN_CACHE"});
}

TEST_F(PlanCaches, IgnoreDamagedAndForeignFilesAndLeaveThemAsTheyAre) {
  const PlanCache whole(at("whole"));
  whole.keep("one", some);
  const std::string text = contents_of(whole.path());
  const std::string first = text.substr(0, text.find('\n') + 1);
  std::string newer = text;
  newer.replace(newer.find("cache 1"), 7, "cache 2");
  for (const std::string& content :
       {text.substr(0, text.size() - 1), text + "pipe", newer, first.substr(0, 9), text + first, first + "\n",
        first + "pipeline\t3\t1500.000\n", first + "pipeline\tthree\t1500.000\tone\n",
        first + "pipeline\t3\tnan\tone\n", first + "\t3\t1500.000\tone\n", first + "pipeline\t3\t1500.000\t\n",
        first + "pipeline\t99999999999\t1500.000\tone\n", std::string("[]"), std::string("some words\n"),
        std::string("\0\xff\0\n", 4)}) {
    const PlanCache cache(write(content));
    fs::resize_file(at("log"), 0);
    const Log log(LogLevel::warn, at("log"), 0);
    EXPECT_FALSE(cache.find("one", log)) << content;
    expect_says(logged(), {cache.path(), "is ignored"});
    const std::string said = logged();
    EXPECT_FALSE(cache.find("two", log)) << content;
    EXPECT_EQ(logged(), said) << "each plan looks for its choice";
    EXPECT_NE(cache.trouble(), "") << content;
    expect_error<InvalidArgument>([&] { cache.keep("two", some); }, {cache.path(), "is not a plan cache", "remove it"});
    EXPECT_EQ(contents_of(cache.path()), content);
  }
  const PlanCache folder(at("."));
  EXPECT_FALSE(folder.find("one", log()));
  EXPECT_THROW(folder.keep("one", some), InvalidArgument);
}

TEST_F(PlanCaches, TakeAnEmptyFileForAnEmptyCache) {
  const PlanCache cache(write(""));
  EXPECT_FALSE(cache.find("one", log()));
  EXPECT_EQ(logged(), "");
  cache.keep("one", some);
  EXPECT_EQ(cache.find("one", log()), some);
}

TEST_F(PlanCaches, RefuseWhatIsNoLine) {
  const PlanCache cache(at("plans"));
  cache.keep("one", some);
  for (const char* key : {"", "a\tb", "a\nb"}) {
    expect_error<InvalidArgument>([&] { cache.keep(key, some); }, {cache.path(), "tabs"});
  }
  expect_error<InvalidArgument>([&] { cache.keep("two", {.algorithm = "a\tb", .groups = 0, .seconds = 1}); }, {"a\tb"});
  for (const double seconds : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e305}) {  // 1e305 s is too many microseconds
    expect_error<InvalidArgument>([&] { cache.keep("two", {.algorithm = "direct", .groups = 0, .seconds = seconds}); },
                                  {cache.path(), "'two'", "number"});
  }
  EXPECT_EQ(cache.trouble(), "");
  EXPECT_EQ(cache.find("one", log()), some);
}

TEST_F(PlanCaches, SayWhyTheyCannotBeWritten) {
  const std::string file = write("");
  expect_error<Error>([&] { PlanCache(file + "/plans").keep("one", some); }, {file});
}

TEST_F(PlanCaches, SayBeforeAnythingIsKeptWhyTheyCannotBeWritten) {
  const std::string file = write("");
  expect_error<Error>([&] { PlanCache(file + "/plans").expect_writable(); }, {file, "folder cannot be opened"});
  expect_error<Error>([] { PlanCache("/proc/plans").expect_writable(); }, {"'/proc/plans' could not be written"});
  expect_error<InvalidArgument>([] { PlanCache("").expect_writable(); }, {"TANDEM_PLAN_CACHE"});
  expect_error<InvalidArgument>([&] { PlanCache(at(".")).expect_writable(); }, {"not a plan cache"});

  const PlanCache cache(at("a/folder/plans"));
  cache.expect_writable();
  EXPECT_TRUE(fs::is_empty(at("a/folder")));  // where there is no file, none is left
  cache.keep("one", some);
  const std::string before = contents_of(cache.path());
  cache.expect_writable();
  EXPECT_EQ(contents_of(cache.path()), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(at("a/folder")), fs::directory_iterator()), 1);
}

TEST_F(PlanCaches, LoseNothingOfThoseWhoKeepAtOnce) {
  constexpr int writers = 4;
  constexpr int each = 25;
  const auto key = [](int writer, int i) { return std::to_string(writer) + "/" + std::to_string(i); };
  std::vector<std::thread> threads;
  for (int writer = 0; writer < writers; ++writer) {
    threads.emplace_back([&, writer] {
      const PlanCache cache(at("plans"));
      for (int i = 0; i < each; ++i) {
        cache.keep(key(writer, i), some);
        EXPECT_EQ(cache.find(key(writer, i), log()), some);  // readers never see a partly written file
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const PlanCache cache(at("plans"));
  for (int writer = 0; writer < writers; ++writer) {
    for (int i = 0; i < each; ++i) EXPECT_EQ(cache.find(key(writer, i), log()), some) << key(writer, i);
  }
  EXPECT_EQ(logged(), "");
}

TEST_F(PlanCaches, LeaveTheDraftsOfOtherHostsAlone) {
  const std::string draft = at("plans." + std::to_string(::getpid()));  // pids are the same on other hosts
  std::ofstream(draft) << "not all of it";
  const PlanCache cache(at("plans"));
  cache.keep("one", some);
  EXPECT_EQ(cache.find("one", log()), some);
  EXPECT_EQ(contents_of(draft), "not all of it");
}

TEST_F(PlanCaches, KeepApartAllThatDecides) {
  const auto host = open_device({DeviceType::host, 0}, {.gemm = GemmChoice::builtin});
  const auto linked = open_device(
      {DeviceType::host, 0}, {.link = LinkOptions{std::chrono::microseconds(20), 1e9}, .gemm = GemmChoice::builtin});
  const std::string key = PlanCache::key("AllGatherLinear", "m=4", 2, *host);
  EXPECT_EQ(key, PlanCache::key("AllGatherLinear", "m=4", 2,
                                *open_device({DeviceType::host, 0}, {.gemm = GemmChoice::builtin})));
  EXPECT_NE(key, PlanCache::key("LinearAllReduce", "m=4", 2, *host));
  EXPECT_NE(key, PlanCache::key("AllGatherLinear", "m=5", 2, *host));
  EXPECT_NE(key, PlanCache::key("AllGatherLinear", "m=4", 3, *host));
  EXPECT_NE(key, PlanCache::key("AllGatherLinear", "m=4", 2, *linked));
  expect_says(key, {"tandem ", "cores", "GEMM by"});
}

}  // namespace
}  // namespace tandem
