// SPDX-License-Identifier: Apache-2.0
// What a linear plan runs besides its GEMMs uses no more SMs than it may: checks what its captured runs would launch.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "tandem/base/error.hpp"
#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"

#include "base/format.hpp"
#include "support/cuda/recorded_graph.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"
#include "support/guarded_tensor.hpp"

namespace tandem {
namespace {

using testing::GuardedTensor;

/// Kernels that move or sum what ranks exchange: Tandem's own, except GEMMs and the one-block kernels that signal and
/// wait.
bool is_counted(std::string_view kernel) {
  const auto has = [kernel](std::string_view part) { return kernel.find(part) != std::string_view::npos; };
  return has("tandem") && !has("gemm_kernel") && !has("signal_kernel") && !has("wait_kernel") && !has("count_kernel");
}

/// Records a run of every linear plan by each algorithm, on at most `sms` SMs.
class Recorder {
 public:
  Recorder(const Team& team, const LinearSpec& spec, std::optional<int> sms)
      : team_(team), spec_(spec), sms_(sms), stream_(team.device()) {
    const std::int64_t own = shard_of(spec.m, team.size(), team.rank()).count;
    const GuardedTensor x(team, {spec.m, spec.k}, spec.dtype);
    const GuardedTensor x_shard(team, {own, spec.k}, spec.dtype);
    const GuardedTensor weight(team, {spec.n, spec.k}, spec.dtype);
    const GuardedTensor y(team, {spec.m, spec.n}, spec.dtype);
    const GuardedTensor y_shard(team, {own, spec.n}, spec.dtype);
    const GuardedTensor gradients(team, {spec.n, spec.k}, f32);
    const auto layer = [this, w = weight.view()](const GuardedTensor& from, const GuardedTensor& into) {
      return [this, w, x = from.view(), y = into.view()](auto& plan) { plan(x, w, y, stream_); };
    };
    const auto gradient = [this, dw = gradients.view()](const GuardedTensor& of_y, const GuardedTensor& of_x) {
      return [this, dw, dy = of_y.view(), x = of_x.view()](auto& plan) { plan(dy, x, dw, stream_); };
    };
    record<AllGatherLinear>(LinearKind::all_gather_linear, layer(x_shard, y));
    record<LinearWeightGradient>(LinearKind::linear_weight_gradient, gradient(y, x_shard), GatheredOperand::x);
    record<LinearWeightGradient>(LinearKind::linear_weight_gradient, gradient(y_shard, x), GatheredOperand::dy);
    if (sms != 0) {
      record<LinearReduceScatter>(LinearKind::linear_reduce_scatter, layer(x, y_shard));
      record<LinearAllReduce>(LinearKind::linear_all_reduce, layer(x, y));
    }
    team.barrier();  // before any rank releases what was recorded
  }

  /// For each plan, by its description: the most blocks of counted kernels that can be resident at once.
  [[nodiscard]] const std::map<std::string, std::size_t>& blocks() const noexcept { return blocks_; }

 private:
  template <typename Plan, typename Run, typename... Operands>
  void record(LinearKind kind, const Run& run, Operands... gathered) {
    for (const std::string& algorithm : linear_algorithms(kind)) {
      Plan plan(team_, spec_, gathered..., LinearOptions{.algorithm = algorithm, .sms = sms_});
      const testing::RecordedGraph graph(team_.device(), stream_, [&] { run(plan); });
      EXPECT_FALSE(graph.nodes().empty()) << plan.describe();
      std::size_t& most = blocks_[plan.describe()];
      most = std::max(most, graph.most_blocks_at_once(is_counted));
    }
  }

  Team team_;
  LinearSpec spec_;
  std::optional<int> sms_;
  Stream stream_;
  std::map<std::string, std::size_t> blocks_;
};

class LinearSmsCapture : public testing::OnEachDevice {};

// Through mailboxes; directly on all ranks' memory; and, for rows that do not fit vector accesses, copies and sums.
constexpr LinearSpec specs[]{{.m = 45, .n = 512, .k = 256, .dtype = bf16},
                             {.m = 3000, .n = 2048, .k = 1024, .dtype = bf16},
                             {.m = 3000, .n = 2047, .k = 1023, .dtype = bf16}};

TEST_P(LinearSmsCapture, NoRunLaunchesMoreBlocksThanItMay) {
  on(3, [](World& world) {
    for (const LinearSpec& spec : specs) {
      for (const int sms : {0, 1, 2, 8}) {  // 0: only the operations that gather
        const Recorder recorder(world.team(), spec, sms);
        for (const auto& [what, blocks] : recorder.blocks()) {
          EXPECT_LE(blocks, static_cast<std::size_t>(sms)) << what;
        }
      }
    }
  });
}

// The gather of the scales counts, too.
TEST_P(LinearSmsCapture, NorDoesOneWithScalesOfRows) {
  on(3, [](World& world) {
    const Team& team = world.team();
    for (const std::int64_t m : {45, 30'000}) {
      const LinearSpec spec{.m = m, .n = 64, .k = 64, .dtype = f8e4m3, .scaling = Scaling::per_row};
      const std::int64_t own = shard_of(m, team.size(), team.rank()).count;
      const GuardedTensor x(team, {own, spec.k}, f8e4m3);
      const GuardedTensor weight(team, {spec.n, spec.k}, f8e4m3);
      const GuardedTensor x_scale(team, {own}, f32);
      const GuardedTensor weight_scale(team, {spec.n}, f32);
      const GuardedTensor y(team, {m, spec.n}, bf16);
      const Stream stream(team.device());
      for (const std::string& algorithm : linear_algorithms(LinearKind::all_gather_linear)) {
        for (const int sms : {0, 1, 8}) {
          AllGatherLinear plan(team, spec, {.algorithm = algorithm, .sms = sms});
          const testing::RecordedGraph graph(team.device(), stream, [&] {
            plan({.x = x.view(),
                  .weight = weight.view(),
                  .x_scale = x_scale.view(),
                  .weight_scale = weight_scale.view(),
                  .y = y.view()},
                 stream);
          });
          EXPECT_FALSE(graph.nodes().empty());
          EXPECT_LE(graph.most_blocks_at_once(is_counted), static_cast<std::size_t>(sms)) << plan.describe();
          team.barrier();  // before any rank releases what was recorded
        }
      }
    }
  });
}

// Without this, the tests above would prove nothing.
TEST_P(LinearSmsCapture, WithoutALimitSumsLaunchMore) {
  on(3, [](World& world) {
    for (const LinearSpec& spec : {specs[1], specs[2]}) {
      const Recorder recorder(world.team(), spec, std::nullopt);
      int runs = 0;
      for (const auto& [what, blocks] : recorder.blocks()) {
        if (!what.starts_with("LinearReduceScatter") && !what.starts_with("LinearAllReduce")) continue;
        ++runs;
        EXPECT_GT(blocks, 8U) << what;
      }
      EXPECT_GT(runs, 0);
    }
  });
}

// The options are refused before anything is created, so the team can continue.
TEST_P(LinearSmsCapture, NoProductLeavesAllMultiprocessors) {
  on(2, [](World& world) {
    const Team& team = world.team();
    const int sms = world.device().hardware().blocks_at_once;
    const LinearSpec spec{.m = 8, .n = 16, .k = 16};
    const LinearOptions options{.leave_sms = sms};
    const auto refused = [&](const std::function<void()>& make) {
      testing::expect_error<InvalidArgument>(
          make, {format("leave_sms is {} on a GPU of {} SMs; allowed: up to {}", sms, sms, sms - 1)});
    };
    refused([&] { const AllGatherLinear plan(team, spec, options); });
    refused([&] { const LinearReduceScatter plan(team, spec, options); });
    refused([&] { const LinearAllReduce plan(team, spec, options); });
    refused([&] { const LinearWeightGradient plan(team, spec, GatheredOperand::x, options); });
    const AllGatherLinear plan(team, spec, {.leave_sms = sms - 1});
    EXPECT_NE(plan.describe().find(format("on 1 of {} SMs", sms)), std::string::npos) << plan.describe();
  });
}

INSTANTIATE_TEST_SUITE_P(Device, LinearSmsCapture, ::testing::Values(DeviceType::cuda), testing::device_name);

}  // namespace
}  // namespace tandem
