// SPDX-License-Identifier: Apache-2.0
// What copy engines can do must not wait for SMs: neither for those of a GPU that, as during a GEMM, has room for only
// a warp or two per SM, nor for a block of a kernel that copies or sums.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
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
#include "tandem/device/event.hpp"
#include "tandem/device/gemm.hpp"
#include "tandem/device/graph.hpp"

#include "collective/support.hpp"
#include "support/cuda/occupied_gpu.hpp"
#include "support/devices.hpp"

namespace tandem::testing {
namespace {

constexpr std::chrono::seconds limit{5};
constexpr int room_for_two_warps = OccupiedGpu::most_block_threads - 32;
constexpr std::int64_t count = std::int64_t{1} << 21;  // elements of a rank's shard: 8 MiB

class FullGpu : public OnEachDevice {};

/// Runs `run` on full GPUs, together with a kernel of one block, which must not find room.
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
  run(stream);  // loads what is loaded at first use
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
    // Large enough that shares are passed on, with three ranks or more.
    Broadcast broadcast(team, {.count = count * team.size(), .dtype = i32}, engines);
    std::vector<std::int32_t> mine(static_cast<std::size_t>(count * team.size()));
    std::iota(mine.begin(), mine.end(), team.rank() * 1'000'000);
    GuardedTensor input(team, {count * team.size()}, i32);
    input.set(std::as_bytes(std::span(mine)));
    const TensorView shard = input.view().narrow(0, 0, count);
    const SymmetricTensor whole = symmetric(team, {count * team.size()}, i32);
    // Element `i` of a rank's input.
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
    const auto place_own_shard = [&] {
      poison(whole);
      world.device().upload(whole.local().narrow(0, team.rank() * count, count).data(), mine.data(),
                            static_cast<std::size_t>(count) * sizeof(std::int32_t));
      team.barrier();  // no rank may poison what has already arrived
    };
    place_own_shard();
    expect_done_on_full_gpus(world, "a gather in place", [&](StreamRef stream) { gather(whole, stream); });
    expect_parts("gathered in place", given);
    {
      const Stream recording(world.device(), StreamPriority::high);
      const Graph graph(world.device(), recording, [&] { gather(whole, recording); });
      place_own_shard();
      expect_done_on_full_gpus(world, "a captured gather in place", [&](StreamRef stream) { graph.launch(stream); });
      expect_parts("gathered in place, captured", given);
    }
    team.barrier();
    poison(whole);
    expect_done_on_full_gpus(world, "an exchange", [&](StreamRef stream) { exchange(input.view(), whole, stream); });
    expect_parts("exchanged", [&](int rank, std::int64_t i) { return given(rank, team.rank() * count + i); });
    team.barrier();
    poison(whole);
    expect_done_on_full_gpus(world, "a broadcast",
                             [&](StreamRef stream) { broadcast(input.view(), whole, 1, stream); });
    expect_parts("broadcast", [&](int rank, std::int64_t i) { return given(1, rank * count + i); });
  });
}

/// The median time of `run` in milliseconds, from when all ranks are ready until `stream` has finished it.
double median_ms(const Team& team, StreamRef stream, const std::function<void()>& run) {
  std::array<double, 7> times{};
  run();
  for (double& time : times) {
    team.synchronize(stream);
    team.barrier();
    const auto begin = std::chrono::steady_clock::now();
    run();
    team.synchronize(stream);
    time = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

// A gather of 64 MiB per rank and a GEMM that fills the GPU: only memory traffic may slow the longer of the two.
TEST_P(FullGpu, AProductAndAGatherHoldEachOtherUpByLittle) {
  const int gpus = device_count(DeviceType::cuda);
  if (gpus < 2) GTEST_SKIP() << "ranks that share a GPU multiply in turns; there is one GPU";
  on(gpus, [](World& world) {
    const Team& team = world.team();
    constexpr std::int64_t shard = std::int64_t{64} << 20;
    const SymmetricTensor whole = symmetric(team, {shard * team.size()}, u8);
    AllGather gather(team, {.count = shard, .dtype = u8}, {.sms = 0});
    constexpr std::int64_t n = 8192;
    const auto matrix = [&] {
      Buffer buffer(team.shared_device(), static_cast<std::size_t>(n * n) * size_of(f16));
      const std::vector<std::uint16_t> ones(static_cast<std::size_t>(n * n), 0x3C00);
      team.device().upload(buffer.data(), ones.data(), buffer.bytes());
      return buffer;
    };
    const Buffer a = matrix();
    const Buffer b = matrix();
    const Buffer d(team.shared_device(), a.bytes());
    const auto gemm = team.device().gemm({.m = n, .n = n, .k = n, .dtype = f16, .out_dtype = f16});
    const Stream products(team.device());
    const Stream gathers(team.device(), StreamPriority::high);
    Event fork(team.device());
    Event join(team.device());
    const auto multiply = [&] { gemm->run(products, {.a = a.data(), .b = b.data(), .d = d.data()}); };
    const double product = median_ms(team, products, multiply);
    const double alone = median_ms(team, gathers, [&] { gather(whole, gathers); });
    const double both = median_ms(team, products, [&] {
      order_after(gathers, products, fork);
      gather(whole, gathers);
      multiply();
      order_after(products, gathers, join);
    });
    std::printf("[   beside ] product %.3f ms, gather %.3f ms, both %.3f ms\n", product, alone, both);
    EXPECT_LT(both, 1.15 * std::max(product, alone));
    EXPECT_GT(product, alone) << "nothing to be hidden behind: nothing is shown";
  });
}

INSTANTIATE_TEST_SUITE_P(On, FullGpu, ::testing::Values(DeviceType::cuda), device_name);

}  // namespace
}  // namespace tandem::testing
