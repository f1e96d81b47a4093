// SPDX-License-Identifier: Apache-2.0
// Linear operations in a CUDA graph that is replayed thousands of times.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "tandem/device/device.hpp"
#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"

#include "linear/tensors.hpp"
#include "support/devices.hpp"
#include "support/replayed_runs.hpp"

namespace tandem {
namespace {

using testing::GuardedTensor;
using testing::ReplayedRuns;

class ReplayStress : public testing::OnEachDevice {};

constexpr std::int64_t outputs = 24;
constexpr std::int64_t inputs = 20;

/// Every linear operation on `tokens` tokens, by each algorithm. Small whole numbers, so that f32 has every sum and
/// their totals exactly.
class LinearOperations {
 public:
  LinearOperations(const Team& team, ReplayedRuns& runs, std::int64_t tokens)
      : team_(team), runs_(runs), spec_{.m = tokens, .n = outputs, .k = inputs} {
    const std::int64_t own = shard_rows(tokens, team.size(), team.rank()).count;
    add<AllGatherLinear>(LinearKind::all_gather_linear, {own, inputs}, {outputs, inputs}, {tokens, outputs});
    add<LinearReduceScatter>(LinearKind::linear_reduce_scatter, {tokens, inputs}, {outputs, inputs}, {own, outputs});
    add<LinearAllReduce>(LinearKind::linear_all_reduce, {tokens, inputs}, {outputs, inputs}, {tokens, outputs});
    add<LinearWeightGradient>(LinearKind::linear_weight_gradient, {tokens, outputs}, {own, inputs}, {outputs, inputs},
                              GatheredOperand::x);
    add<LinearWeightGradient>(LinearKind::linear_weight_gradient, {own, outputs}, {tokens, inputs}, {outputs, inputs},
                              GatheredOperand::dy);
  }

 private:
  template <typename Plan, typename... Operands>
  void add(LinearKind kind, const Dims& left, const Dims& right, const Dims& made, Operands... gathered) {
    for (const std::string& algorithm : linear_algorithms(kind)) {
      const auto plan = std::make_shared<Plan>(team_, spec_, gathered..., LinearOptions{.algorithm = algorithm});
      const auto out = std::make_shared<GuardedTensor>(team_, made, f32);
      const auto lefts = std::make_shared<const std::array<GuardedTensor, 2>>(std::array{input(left), input(left)});
      const auto rights = std::make_shared<const std::array<GuardedTensor, 2>>(std::array{input(right), input(right)});
      runs_.add(plan->describe(), out->view(), [this, plan, out, lefts, rights](int set) {
        const auto at = static_cast<std::size_t>(set);
        (*plan)(lefts->at(at).view(), rights->at(at).view(), out->view(), runs_.stream());
      });
    }
  }
  [[nodiscard]] GuardedTensor input(const Dims& sizes) {
    const std::uint64_t own = testing::key(testing::seed(), {++inputs_, static_cast<std::uint64_t>(team_.rank())});
    GuardedTensor tensor(team_, sizes, f32);
    tensor.set([&](std::int64_t row, std::int64_t column) {
      return static_cast<double>(testing::random_bits(own, static_cast<std::uint64_t>(row * sizes[1] + column)) % 5) -
             2;
    });
    return tensor;
  }

  Team team_;
  ReplayedRuns& runs_;
  LinearSpec spec_;
  std::uint64_t inputs_ = 0;
};

/// 10^4 replays of every linear operation by each algorithm, of few tokens and of some groups, over the node's GPUs (up
/// to 4) or two ranks that share one; TANDEM_TEST_SCALE scales it.
TEST_P(ReplayStress, EveryLinearOperation) {
  const auto replays = static_cast<int>(std::ceil(1e4 * testing::stress_scale()));
  on(std::clamp(device_count(GetParam()), 2, 4),
     [replays](World& world) {
       ReplayedRuns runs(world.team());
       const LinearOperations few(world.team(), runs, 3);
       const LinearOperations many(world.team(), runs, 61);
       runs.replay(replays);
     },
     {.limit = std::chrono::seconds(580)});
}

INSTANTIATE_TEST_SUITE_P(Device, ReplayStress, ::testing::Values(DeviceType::cuda), testing::device_name);

}  // namespace
}  // namespace tandem
