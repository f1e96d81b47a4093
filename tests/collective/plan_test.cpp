// SPDX-License-Identifier: Apache-2.0
// What all kinds of plans have in common.
#include "tandem/collective/plan.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <type_traits>
#include <unistd.h>
#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/device/stream.hpp"
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

// A plan can only be moved to one of its own kind, and moves do not throw.
static_assert(std::is_nothrow_move_constructible_v<AllReduce> && std::is_nothrow_move_assignable_v<AllReduce>);
static_assert(!std::is_copy_constructible_v<AllReduce> && !std::is_copy_assignable_v<AllReduce>);
static_assert(!std::is_move_constructible_v<Collective> && !std::is_move_assignable_v<Collective>);

TEST(Plans, RunWhereTheyWereMovedToAndSayWhereTheyWereMovedFrom) {
  run_ranks(2, [](World& world) {
    AllReduce plan(world.team(), {.count = 3, .dtype = f32});
    const std::string description = plan.describe();
    AllReduce other(world.team(), {.count = 1, .dtype = f64});
    other = std::move(plan);
    EXPECT_EQ(other.describe(), description);
    EXPECT_EQ(other.team(), world.team());
    EXPECT_EQ(other.dtype(), f32);
    std::array<float, 3> sum{1, 2, static_cast<float>(world.rank())};
    const TensorView view(sum.data(), {3}, f32);
    Stream stream(world.device());
    other(view, view, stream);
    world.team().synchronize(stream);
    EXPECT_EQ(sum, (std::array<float, 3>{2, 4, 1}));

    // NOLINTBEGIN(bugprone-use-after-move)
    EXPECT_FALSE(plan.team());
    EXPECT_EQ(plan.describe(), "");
    expect_error<InvalidArgument>([&] { static_cast<void>(plan.dtype()); }, {"moved from"});
    expect_error<InvalidArgument>([&] { static_cast<void>(plan.algorithm(3, Tensors::plain)); }, {"moved from"});
    // NOLINTEND(bugprone-use-after-move)
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
