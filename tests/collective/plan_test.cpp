// SPDX-License-Identifier: Apache-2.0
// What all kinds of plans have in common.
#include "tandem/collective/plan.hpp"

#include <cstdint>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include "tandem/collective/all_reduce.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/ranks.hpp"

namespace tandem::testing {
namespace {

TEST(Plans, ThousandsOfAKindLeaveOneName) {
  run_ranks(1, [](World& world) {
    const Team& team = world.team();
    const std::uint32_t first = team.register_operation("first");
    for (int i = 0; i < 10'000; ++i) AllReduce(team, {.count = 10, .dtype = f32});
    EXPECT_LE(team.register_operation("last") - first, 10U);
  });
}

/// What two ranks log at this level while they create a team, a tensor and a plan.
std::string log_of(LogLevel level) {
  const std::string path = ::testing::TempDir() + "tandem-plans-" + std::to_string(::getpid()) + ".";
  Env env;
  env.log = level;
  env.log_file = path + "%r";
  run_ranks(2,
            [](World& world) {
              const Team team = world.team({1, 0});
              SymmetricTensor tensor = SymmetricTensor::empty(team, {3, 5}, f32);
              tensor.rendezvous();
              const AllReduce plan(team, {.count = 15, .dtype = f32});
              team.log().write(LogLevel::info, "described: " + plan.describe());
            },
            {.env = env});
  std::string text;
  for (const char* rank : {"0", "1"}) {
    text += contents_of(path + rank);
    std::filesystem::remove(path + rank);
  }
  return text;
}

TEST(Plans, AreInTheLogAtTraceWithTheirTeamsAndMemory) {
  const std::string text = log_of(LogLevel::trace);
  const std::string mark = "described: ";
  const std::size_t begin = text.find(mark) + mark.size();
  const std::string description = text.substr(begin, text.find('\n', begin) - begin);
  expect_says(description, {"AllReduce of up to 15 f32"});
  for (const std::string rank : {"0", "1"}) {
    const std::string head = "[rank " + rank + "] [trace] ";
    expect_says(text, {head + "made team ", head + "allocated 60 bytes on backend 'host' with 16 channels, at 0x",
                       head + "rendezvous of f32[3, 5] in 60 bytes on backend 'host' with 16 channels, at 0x",
                       head + "plan ", ": " + description + "\n"});
  }
}

TEST(Plans, AreNotInTheLogAtInfo) {
  const std::string text = log_of(LogLevel::info);
  expect_says(text, {"[info] described: AllReduce"});
  for (const char* unsaid : {"[trace]", "made team", "allocated ", "rendezvous of "}) {
    EXPECT_EQ(text.find(unsaid), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tandem::testing
