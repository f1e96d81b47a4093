// SPDX-License-Identifier: Apache-2.0
// Collectives on what programs get from the CUDA runtime: its default streams, memory from its stream-ordered
// allocator, and captures of every mode.
#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <deque>
#include <optional>
#include <vector>

#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"

#include "collective/player.hpp"
#include "collective/support.hpp"
#include "support/cuda/captured_graph.hpp"

namespace tandem::testing {
namespace {

class RuntimeObjects : public CollectiveTest {};

constexpr int plays = 12;
constexpr std::uint64_t longest_us = 300;

TEST_P(RuntimeObjects, RunsTakeTheDefaultStreams) {
  run([](World& world) {
    TANDEM_EXPECT_CUDA(cudaSetDevice(world.device().id().index));
    cudaStream_t const null = nullptr;
    std::uint64_t sequence = 1;
    for (const StreamRef stream : {StreamRef(null), StreamRef(cudaStreamLegacy), StreamRef(cudaStreamPerThread)}) {
      Player<std::int32_t> player(world.team(), sequence++, plays, some_pieces, stream);
      for (int round = 0; round < 2; ++round) {
        for (int play = 0; play < plays; ++play) player.play(longest_us);
        player.check();
      }
    }
  });
}

TEST_P(RuntimeObjects, EachModeOfCaptureRecordsRuns) {
  run([](World& world) {
    TANDEM_EXPECT_CUDA(cudaSetDevice(world.device().id().index));
    const auto replay = [&](std::uint64_t sequence, cudaStreamCaptureMode mode, std::optional<StreamRef> stream) {
      Player<std::int32_t> player(world.team(), sequence, plays, some_pieces, stream);
      const CapturedGraph graph(
          world.device(), player.stream(),
          [&] {
            for (int play = 0; play < plays; ++play) player.play(longest_us);
          },
          mode);
      player.repeats_what_was_played();
      for (int round = 0; round < 2; ++round) {
        graph.launch(player.stream());
        player.check();
      }
    };
    replay(10, cudaStreamCaptureModeThreadLocal, {});
    replay(11, cudaStreamCaptureModeRelaxed, {});
    replay(12, cudaStreamCaptureModeRelaxed, cudaStreamPerThread);
  });
}

/// An all_reduce and an all_gather of one input, in memory that is allocated in front of them, and freed behind them,
/// in stream order only, as caching allocators do: what is allocated next may get the same memory while peers still
/// run.
class FreedBehind {
 public:
  FreedBehind(const Team& team, std::int64_t count, std::uint64_t turn) : team_(team), count_(count), turn_(turn) {
    for (std::int64_t i = 0; i < count; ++i) input_.push_back(value(team.rank(), i));
    sum_.resize(input_.size());
    gathered_.resize(input_.size() * static_cast<std::size_t>(team.size()));
  }

  void queue(AllReduce& reduce, AllGather& gather, const Stream& stream) {
    cudaStream_t const native = CapturedGraph::native(stream);
    const std::size_t bytes = input_.size() * sizeof(std::int32_t);
    const std::size_t all = gathered_.size() * sizeof(std::int32_t);
    void* input = nullptr;
    void* sum = nullptr;
    void* gathered = nullptr;
    TANDEM_EXPECT_CUDA(cudaMallocAsync(&input, bytes, native));
    TANDEM_EXPECT_CUDA(cudaMallocAsync(&sum, bytes, native));
    TANDEM_EXPECT_CUDA(cudaMallocAsync(&gathered, all, native));
    TANDEM_EXPECT_CUDA(cudaMemcpyAsync(input, input_.data(), bytes, cudaMemcpyHostToDevice, native));
    TANDEM_EXPECT_CUDA(cudaMemsetAsync(sum, 0xFF, bytes, native));
    TANDEM_EXPECT_CUDA(cudaMemsetAsync(gathered, 0xFF, all, native));
    const DeviceId device = team_.device().id();
    const TensorView in(input, {count_}, i32, device);
    reduce(in, {sum, {count_}, i32, device}, stream);
    gather(in, {gathered, {count_ * team_.size()}, i32, device}, stream);
    TANDEM_EXPECT_CUDA(cudaMemsetAsync(input, 0xFF, bytes, native));
    TANDEM_EXPECT_CUDA(cudaFreeAsync(input, native));
    TANDEM_EXPECT_CUDA(cudaMemcpyAsync(sum_.data(), sum, bytes, cudaMemcpyDeviceToHost, native));
    TANDEM_EXPECT_CUDA(cudaMemcpyAsync(gathered_.data(), gathered, all, cudaMemcpyDeviceToHost, native));
    TANDEM_EXPECT_CUDA(cudaFreeAsync(sum, native));
    TANDEM_EXPECT_CUDA(cudaFreeAsync(gathered, native));
  }

  /// Call once the stream is synchronized.
  void check() const {
    for (std::int64_t i = 0; i < count_; ++i) {
      std::int32_t sum = 0;
      for (int rank = 0; rank < team_.size(); ++rank) {
        const std::int32_t shared = value(rank, i);
        sum += shared;
        ASSERT_EQ(gathered_[static_cast<std::size_t>(rank * count_ + i)], shared)
            << "element " << i << " of the " << count_ << " of rank " << rank << ", turn " << turn_;
      }
      ASSERT_EQ(sum_[static_cast<std::size_t>(i)], sum) << "element " << i << " of " << count_ << ", turn " << turn_;
    }
  }

 private:
  [[nodiscard]] std::int32_t value(int rank, std::int64_t i) const {
    const std::uint64_t bits =
        random_bits(key(seed(), {turn_, static_cast<std::uint64_t>(rank)}), static_cast<std::uint64_t>(i));
    return static_cast<std::int32_t>(bits % 1'000'000);
  }

  Team team_;
  std::int64_t count_;
  std::uint64_t turn_;
  std::vector<std::int32_t> input_;
  std::vector<std::int32_t> sum_;
  std::vector<std::int32_t> gathered_;
};

TEST_P(RuntimeObjects, MemoryMayBeFreedBehindTheRunThatUsesIt) {
  run([](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    TANDEM_EXPECT_CUDA(cudaSetDevice(team.device().id().index));
    Draws draws(7);
    for (const std::int64_t count : {100, 30'000, 1'000'000}) {
      AllReduce reduce(team, {.count = count, .dtype = i32});
      AllGather gather(team, {.count = count, .dtype = i32});
      std::deque<FreedBehind> turns;
      for (std::uint64_t turn = 0; turn < 6; ++turn) {
        turns.emplace_back(team, count, turn);
        delay_somebody(team, stream, draws, longest_us);
        turns.back().queue(reduce, gather, stream);
      }
      team.synchronize(stream);
      for (const FreedBehind& turn : turns) turn.check();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(On, RuntimeObjects,
                         ::testing::Combine(::testing::Values(DeviceType::cuda), ::testing::ValuesIn(team_sizes())),
                         name_of_case);

}  // namespace
}  // namespace tandem::testing
