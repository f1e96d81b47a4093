// SPDX-License-Identifier: Apache-2.0
// Ranks as some launchers start them: each sees only its own GPU, as device 0.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "tandem/collective/all_reduce.hpp"
#include "tandem/device/device.hpp"

#include "collective/support.hpp"

namespace tandem::testing {
namespace {

/// Makes one of the GPUs that this process sees the only visible one. CUDA must not be initialized yet.
void see_one_gpu(int rank) {
  std::vector<std::string> gpus;
  if (const char* const seen = std::getenv("CUDA_VISIBLE_DEVICES"); seen != nullptr) {
    std::istringstream words(seen);
    for (std::string word; std::getline(words, word, ',');) gpus.push_back(word);
  } else {
    for (int gpu = 0; gpu < device_count(DeviceType::cuda); ++gpu) gpus.push_back(std::to_string(gpu));
  }
  ASSERT_FALSE(gpus.empty());
  ::setenv("CUDA_VISIBLE_DEVICES", gpus[static_cast<std::size_t>(rank) % gpus.size()].c_str(), 1);
}

class OwnGpu : public CollectiveTest {};

TEST_P(OwnGpu, IsEnoughToReachTheOthers) {
  const auto body = [](World& world) {
    const Team& team = world.team();
    EXPECT_EQ(device_count(DeviceType::cuda), 1);
    EXPECT_EQ(world.device().id(), (DeviceId{DeviceType::cuda, 0}));
    constexpr std::int64_t count = 100'000;
    const SymmetricTensor tensor = symmetric(team, {count}, i32);
    const std::vector<std::int32_t> mine(count, team.rank() + 1);
    set(tensor, std::as_bytes(std::span(mine)));
    AllReduce all_reduce(team, {.count = count, .dtype = i32});
    const Stream stream(world.device());
    all_reduce(tensor, stream);
    team.synchronize(stream);
    const std::vector<std::int32_t> sums(count, team.size() * (team.size() + 1) / 2);
    const auto bytes = std::as_bytes(std::span(sums));
    expect_bytes(get(tensor), {bytes.begin(), bytes.end()}, "the sum");
  };
  run_ranks(ranks(), body, {.device = device(), .limit = std::chrono::seconds(240), .before_init = see_one_gpu});
}

INSTANTIATE_TEST_SUITE_P(On, OwnGpu,
                         ::testing::Combine(::testing::Values(DeviceType::cuda), ::testing::ValuesIn(team_sizes())),
                         name_of_case);

}  // namespace
}  // namespace tandem::testing
