// SPDX-License-Identifier: Apache-2.0
// That what copy engines can do waits for no multiprocessor: on GPUs whose multiprocessors have room for a warp or two
// each, as a product leaves it, and for no block of a kernel that copies or adds up.
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/device/buffer.hpp"

#include "collective/support.hpp"
#include "support/cuda/occupied_gpu.hpp"
#include "support/devices.hpp"

namespace tandem::testing {
namespace {

constexpr std::chrono::seconds limit{5};
constexpr int room_for_two_warps = OccupiedGpu::most_block_threads - 32;
constexpr std::int64_t count = std::int64_t{1} << 21;  // of a rank's shard, 8 MiB

class FullGpu : public OnEachDevice {};

/// Runs `run` on full GPUs, and a kernel of one block, which is to find no place.
void expect_done_on_full_gpus(World& world, const std::string& what, const std::function<void(StreamRef)>& run) {
  const Team& team = world.team();
  Device& device = world.device();
  const Stream stream(device, StreamPriority::high);
  const Stream kernels(device);
  const Buffer numbers(team.shared_device(), 64);
  const std::array<const void*, 1> source{numbers.data()};
  const std::array<void*, 1> destination{numbers.data()};
  const auto add = [&] {
    device.reduce(kernels,
                  {.sources = source, .destinations = destination, .count = 4, .dtype = i32, .out_dtype = i32});
  };
  run(stream);  // what is loaded when it is first used
  add();
  team.synchronize(stream);
  kernels.synchronize();
  {
    const OccupiedGpu occupied(device.id().index, limit, room_for_two_warps);
    ASSERT_TRUE(occupied.is_taken());
    team.barrier();
    add();
    run(stream);
    const auto begin = std::chrono::steady_clock::now();
    while (!stream.query() && std::chrono::steady_clock::now() - begin < limit) std::this_thread::yield();
    EXPECT_TRUE(occupied.is_taken()) << what << " waited for multiprocessors";
    EXPECT_FALSE(kernels.query()) << what << ": a kernel found a place: nothing is shown";
  }
  team.synchronize(stream);
  kernels.synchronize();
}

TEST_P(FullGpu, HoldsUpNoGatherExchangeOrBroadcast) {
  const int gpus = device_count(DeviceType::cuda);
  if (gpus < 2) GTEST_SKIP() << "ranks that share a GPU fill it for each other; there is one GPU";
  on(gpus, [](World& world) {
    const Team& team = world.team();
    const CollectiveOptions engines{.sms = 0};
    AllGather gather(team, {.count = count, .dtype = i32}, engines);
    AllToAll exchange(team, {.count = count, .dtype = i32}, engines);
    Broadcast broadcast(team, {.count = count, .dtype = i32}, engines);
    std::vector<std::int32_t> mine(static_cast<std::size_t>(count * team.size()));
    std::iota(mine.begin(), mine.end(), team.rank() * 1'000'000);
    GuardedTensor input(team, {count * team.size()}, i32);
    input.set(std::as_bytes(std::span(mine)));
    const TensorView shard = input.view().narrow(0, 0, count);
    const SymmetricTensor whole = symmetric(team, {count * team.size()}, i32);
    const SymmetricTensor part = symmetric(team, {count}, i32);
    // The number at `i` of what the rank gives.
    const auto given = [](int rank, std::int64_t i) { return static_cast<std::int32_t>(rank * 1'000'000 + i); };
    const auto expect_parts = [&](const std::string& what,
                                  const std::function<std::int32_t(int, std::int64_t)>& number) {
      std::vector<std::int32_t> wanted;
      for (int rank = 0; rank < team.size(); ++rank) {
        for (std::int64_t i = 0; i < count; ++i) wanted.push_back(number(rank, i));
      }
      const auto bytes = std::as_bytes(std::span(wanted));
      expect_bytes(get(whole), {bytes.begin(), bytes.end()}, what);
    };

    poison(whole);
    expect_done_on_full_gpus(world, "a gather", [&](StreamRef stream) { gather(shard, whole, stream); });
    expect_parts("gathered", given);
    poison(whole);
    expect_done_on_full_gpus(world, "an exchange", [&](StreamRef stream) { exchange(input.view(), whole, stream); });
    expect_parts("exchanged", [&](int rank, std::int64_t i) { return given(rank, team.rank() * count + i); });
    poison(part);
    expect_done_on_full_gpus(world, "a broadcast", [&](StreamRef stream) { broadcast(shard, part, 1, stream); });
    std::vector<std::int32_t> wanted;
    for (std::int64_t i = 0; i < count; ++i) wanted.push_back(given(1, i));
    const auto bytes = std::as_bytes(std::span(wanted));
    expect_bytes(get(part), {bytes.begin(), bytes.end()}, "broadcast");
  });
}

INSTANTIATE_TEST_SUITE_P(On, FullGpu, ::testing::Values(DeviceType::cuda), device_name);

}  // namespace
}  // namespace tandem::testing
