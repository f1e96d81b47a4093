// SPDX-License-Identifier: Apache-2.0
// No collective uses more SMs than it may: checks what its captured runs would launch.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/collective/all_to_all.hpp"
#include "tandem/collective/broadcast.hpp"
#include "tandem/collective/reduce_scatter.hpp"
#include "tandem/device/buffer.hpp"

#include "collective/support.hpp"
#include "support/cuda/recorded_graph.hpp"
#include "support/devices.hpp"

namespace tandem::testing {
namespace {

/// Records runs of each collective by each algorithm, of `count` f32 per rank on at most `sms` SMs, with plain and
/// symmetric tensors.
class Recorder {
 public:
  Recorder(const Team& team, std::int64_t count, std::optional<int> sms)
      : team_(team),
        count_(count),
        all_(count * team.size()),
        sms_(sms),
        stream_(team.device()),
        tensor_(symmetric(team, {all_}, f32)),
        other_(symmetric(team, {all_}, f32)),
        from_(team.shared_device(), static_cast<std::size_t>(all_) * sizeof(float)),
        into_(team.shared_device(), static_cast<std::size_t>(all_) * sizeof(float)) {
    gathers();
    if (sms != 0) sums();
    moves();
    team.barrier();  // before any rank releases what was recorded
  }

  /// For each run, by its description: the most thread blocks that can be resident at once.
  [[nodiscard]] const std::map<std::string, std::size_t>& blocks() const noexcept { return blocks_; }

 private:
  [[nodiscard]] TensorView input(std::int64_t count) const { return from_.view({count}, f32); }
  [[nodiscard]] TensorView output(std::int64_t count) const { return into_.view({count}, f32); }
  [[nodiscard]] CollectiveOptions by(const char* algorithm) const { return {.algorithm = algorithm, .sms = sms_}; }

  void record(const std::string& what, const std::function<void()>& run) {
    const RecordedGraph graph(team_.device(), stream_, run);
    EXPECT_FALSE(graph.nodes().empty()) << what;
    blocks_[what] = graph.most_blocks_at_once();
  }
  /// Records a run of one plan for each of the algorithms.
  template <typename Plan, typename Spec, typename Run>
  void each(const Spec& spec, std::initializer_list<const char*> algorithms, const char* on, const Run& run) {
    for (const char* algorithm : algorithms) {
      if (sms_ == 0 && std::string(algorithm).find("kernel") != std::string::npos) continue;  // a kernel needs an SM
      Plan plan(team_, spec, by(algorithm));
      record(plan.describe() + "; " + algorithm + " of " + std::to_string(count_) + " a rank, " + on,
             [&] { run(plan); });
    }
  }

  void gathers() {
    const AllGatherSpec spec{.count = count_, .dtype = f32};
    each<AllGather>(spec, {"auto", "push", "one_kernel", "direct_kernel"}, "in place",
                    [&](AllGather& plan) { plan(tensor_, stream_); });
    each<AllGather>(spec, {"auto", "push", "one_kernel", "direct_kernel"}, "into symmetric",
                    [&](AllGather& plan) { plan(input(count_), tensor_, stream_); });
    each<AllGather>(spec, {"auto", "staged", "one_kernel"}, "plain",
                    [&](AllGather& plan) { plan(input(count_), output(all_), stream_); });
  }
  void sums() {
    const ReduceScatterSpec scatter{.count = count_, .dtype = f32};
    each<ReduceScatter>(scatter, {"auto", "direct", "one_kernel", "push"}, "symmetric",
                        [&](ReduceScatter& plan) { plan(tensor_, stream_); });
    each<ReduceScatter>(scatter, {"auto", "staged", "one_kernel", "push"}, "plain",
                        [&](ReduceScatter& plan) { plan(input(all_), output(count_), stream_); });
    const AllReduceSpec reduce{.count = all_, .dtype = f32};
    each<AllReduce>(reduce, {"auto", "one_shot", "two_shot", "one_kernel", "one_kernel_two_shot", "direct_kernel"},
                    "in place", [&](AllReduce& plan) { plan(tensor_, stream_); });
    each<AllReduce>(reduce, {"auto", "direct_kernel"}, "symmetric",
                    [&](AllReduce& plan) { plan(tensor_, other_, stream_); });
    each<AllReduce>(reduce, {"auto", "one_shot", "two_shot", "one_kernel", "one_kernel_two_shot"}, "plain",
                    [&](AllReduce& plan) { plan(input(all_), output(all_), stream_); });
  }
  void moves() {
    const AllToAllSpec exchange{.count = count_, .dtype = f32};
    each<AllToAll>(exchange, {"auto", "direct_kernel"}, "into symmetric",
                   [&](AllToAll& plan) { plan(input(all_), tensor_, stream_); });
    each<AllToAll>(exchange, {"auto", "direct_kernel"}, "out of symmetric",
                   [&](AllToAll& plan) { plan(tensor_, output(all_), stream_); });
    each<AllToAll>(exchange, {"auto"}, "plain", [&](AllToAll& plan) { plan(input(all_), output(all_), stream_); });
    const BroadcastSpec broadcast{.count = all_, .dtype = f32};
    each<Broadcast>(broadcast, {"auto", "direct_kernel"}, "symmetric",
                    [&](Broadcast& plan) { plan(tensor_, 1, stream_); });
    each<Broadcast>(broadcast, {"auto"}, "plain", [&](Broadcast& plan) { plan(input(all_), 1, stream_); });
  }

  Team team_;
  std::int64_t count_;
  std::int64_t all_;
  std::optional<int> sms_;
  Stream stream_;
  SymmetricTensor tensor_;
  SymmetricTensor other_;
  Buffer from_;
  Buffer into_;
  std::map<std::string, std::size_t> blocks_;
};

class SmsCapture : public OnEachDevice {};

// For packets, for mailboxes, for kernels on the peers' tensors, and too large for a reduce-scatter by such a kernel.
constexpr std::int64_t counts[]{500, 60'000, 400'000, 6 << 20};

TEST_P(SmsCapture, NoRunLaunchesMoreBlocksThanItMay) {
  on(3, [](World& world) {
    for (const std::int64_t count : counts) {
      for (const int sms : {0, 1, 2, 8}) {  // 0: only copies, and one-block kernels that signal and wait
        const Recorder recorder(world.team(), count, sms);
        const auto most = static_cast<std::size_t>(std::max(sms, 1));
        for (const auto& [what, blocks] : recorder.blocks()) EXPECT_LE(blocks, most) << what;
      }
    }
  });
}

// Without this, the test above would prove nothing.
TEST_P(SmsCapture, WithoutALimitSumsLaunchMore) {
  on(3, [](World& world) {
    std::size_t more = 0;
    std::size_t runs = 0;
    const Recorder recorder(world.team(), counts[2], std::nullopt);
    for (const auto& [what, blocks] : recorder.blocks()) {
      if (what.find("AllReduce") == std::string::npos) continue;
      ++runs;
      if (blocks > 8) ++more;
    }
    EXPECT_GT(runs, 0U);
    EXPECT_EQ(more, runs);
  });
}

INSTANTIATE_TEST_SUITE_P(Device, SmsCapture, ::testing::Values(DeviceType::cuda), device_name);

}  // namespace
}  // namespace tandem::testing
