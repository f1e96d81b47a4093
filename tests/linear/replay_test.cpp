// SPDX-License-Identifier: Apache-2.0
// Linear operations in a CUDA graph that is replayed thousands of times.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/collective/all_gather.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/gemm.hpp"
#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/bulk_overlap.hpp"
#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

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

/// Every linear operation on `tokens` tokens, by each algorithm, and bulk overlap. Small whole numbers, so that all
/// sums, and their totals over the replays, are exact in f32.
class LinearOperations {
 public:
  LinearOperations(const Team& team, ReplayedRuns& runs, std::int64_t tokens, DType dtype = f32)
      : team_(team), runs_(runs), spec_{.m = tokens, .n = outputs, .k = inputs, .dtype = dtype} {
    const std::int64_t own = shard_of(tokens, team.size(), team.rank()).count;
    add<AllGatherLinear>(LinearKind::all_gather_linear, {own, inputs}, {outputs, inputs}, {tokens, outputs}, dtype);
    add<LinearReduceScatter>(LinearKind::linear_reduce_scatter, {tokens, inputs}, {outputs, inputs}, {own, outputs},
                             dtype);
    add<LinearAllReduce>(LinearKind::linear_all_reduce, {tokens, inputs}, {outputs, inputs}, {tokens, outputs}, dtype);
    add<LinearWeightGradient>(LinearKind::linear_weight_gradient, {tokens, outputs}, {own, inputs}, {outputs, inputs},
                              dtype, GatheredOperand::x);
    add<LinearWeightGradient>(LinearKind::linear_weight_gradient, {own, outputs}, {tokens, inputs}, {outputs, inputs},
                              dtype, GatheredOperand::dy);
    add_started_gradients();
    add_bulk_overlaps();
  }

 private:
  using Inputs = std::shared_ptr<const std::array<GuardedTensor, 2>>;

  template <typename Plan, typename... Operands>
  void add(LinearKind kind, const Dims& left, const Dims& right, const Dims& made, DType dtype, Operands... gathered) {
    LinearSpec spec = spec_;
    if (kind == LinearKind::linear_weight_gradient) spec.gradient_dtype = dtype;
    for (const std::string& algorithm : linear_algorithms(kind)) {
      LinearOptions options{.algorithm = algorithm};
      if (has_groups(algorithm)) options.groups = most_groups(kind, spec, team_.size());
      const auto plan = std::make_shared<Plan>(team_, spec, gathered..., options);
      const auto out = std::make_shared<GuardedTensor>(team_, made, dtype);
      runs_.add(plan->describe(), out->view(), [this, plan, out, lefts = both(left), rights = both(right)](int set) {
        (*plan)(of(lefts, set), of(rights, set), out->view(), runs_.stream());
      });
    }
  }

  /// A gradient whose gather starts before its other operand exists, concurrently with the work that produces it.
  void add_started_gradients() {
    const std::int64_t own = shard_of(spec_.m, team_.size(), team_.rank()).count;
    LinearSpec spec = spec_;
    spec.gradient_dtype = spec_.dtype;
    for (const std::string& algorithm : linear_algorithms(LinearKind::linear_weight_gradient)) {
      const auto plan = std::make_shared<LinearWeightGradient>(team_, spec, GatheredOperand::x,
                                                               LinearOptions{.algorithm = algorithm});
      const auto dy = std::make_shared<GuardedTensor>(team_, Dims{spec_.m, outputs}, spec_.dtype);
      const auto out = std::make_shared<GuardedTensor>(team_, Dims{outputs, inputs}, spec_.dtype);
      runs_.add(plan->describe() + ", started ahead", out->view(),
                [this, plan, dy, out, dys = both({spec_.m, outputs}), xs = both({own, inputs})](int set) {
                  plan->start(of(xs, set), spec_.m, runs_.stream());
                  const TensorView made = of(dys, set);
                  team_.device().copy(runs_.stream(),
                                      {.dst = dy->view().data(), .src = made.data(), .bytes = made.bytes()});
                  (*plan)(dy->view(), of(xs, set), out->view(), runs_.stream());
                });
    }
  }

  /// A GEMM concurrent with a gather into plain memory, or by copy engines into a symmetric tensor; both results.
  void add_bulk_overlaps() {
    const std::int64_t m = spec_.m;
    const std::int64_t shard = m * inputs;
    const std::int64_t gathered = team_.size() * shard;
    const std::shared_ptr<Gemm> gemm = team_.device().gemm(
        {.m = m, .n = outputs, .k = inputs, .transpose_b = true, .dtype = spec_.dtype, .out_dtype = spec_.dtype});
    for (const bool symmetric : {false, true}) {
      const auto bulk = std::make_shared<BulkOverlap>(team_, BulkOptions{.algorithm = "beside"});
      const auto gather = std::make_shared<AllGather>(
          team_, AllGatherSpec{.count = shard, .dtype = spec_.dtype},
          symmetric ? CollectiveOptions{.algorithm = "push", .sms = 0} : CollectiveOptions{});
      auto tensor = SymmetricTensor::empty(team_, {gathered}, spec_.dtype);
      tensor.rendezvous();
      const auto out = std::make_shared<GuardedTensor>(team_, Dims{gathered + m * outputs}, spec_.dtype);
      runs_.add(bulk->describe() + ": " + gather->describe(), out->view(),
                [=, this, xs = both({m, inputs}), weights = both({outputs, inputs})](int set) {
                  const TensorView x = of(xs, set);
                  const TensorView mine(x.data(), {shard}, spec_.dtype, team_.device().id());
                  const TensorView place = out->view().narrow(0, 0, gathered);
                  const TensorView product = out->view().narrow(0, gathered, m * outputs);
                  (*bulk)(
                      runs_.stream(),
                      [&](StreamRef beside) {
                        if (!symmetric) return (*gather)(mine, place, beside);
                        (*gather)(mine, tensor, beside);
                        team_.device().copy(
                            beside, {.dst = place.data(), .src = tensor.local().data(), .bytes = place.bytes()});
                      },
                      [&](StreamRef main) {
                        gemm->run(main, {.a = x.data(), .b = of(weights, set).data(), .d = product.data()});
                      });
                });
    }
  }

  [[nodiscard]] Inputs both(const Dims& sizes) {
    return std::make_shared<const std::array<GuardedTensor, 2>>(std::array{input(sizes), input(sizes)});
  }
  [[nodiscard]] static TensorView of(const Inputs& sets, int set) {
    return sets->at(static_cast<std::size_t>(set)).view();
  }
  [[nodiscard]] GuardedTensor input(const Dims& sizes) {
    const std::uint64_t own = testing::key(testing::seed(), {++inputs_, static_cast<std::uint64_t>(team_.rank())});
    GuardedTensor tensor(team_, sizes, spec_.dtype);
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

/// The layers of 8-bit floats into f32 on `tokens` tokens, by each algorithm and scaling. Whole numbers and scales.
class Float8Layers {
 public:
  Float8Layers(const Team& team, ReplayedRuns& runs, std::int64_t tokens) : team_(team), runs_(runs), tokens_(tokens) {
    const std::int64_t own = shard_of(tokens, team.size(), team.rank()).count;
    for (const Scaling scaling : {Scaling::per_tensor, Scaling::per_row}) {
      add<AllGatherLinear>(LinearKind::all_gather_linear, own, tokens, scaling);
      add<LinearReduceScatter>(LinearKind::linear_reduce_scatter, tokens, own, scaling);
      add<LinearAllReduce>(LinearKind::linear_all_reduce, tokens, tokens, scaling);
    }
  }

 private:
  // Of which a GPU's library takes rows.
  static constexpr std::int64_t n = 32;
  static constexpr std::int64_t k = 48;

  struct Inputs {
    GuardedTensor x;
    GuardedTensor weight;
    GuardedTensor x_scale;
    GuardedTensor weight_scale;
  };

  template <typename Plan> void add(LinearKind kind, std::int64_t x_rows, std::int64_t y_rows, Scaling scaling) {
    const LinearSpec spec{.m = tokens_, .n = n, .k = k, .dtype = f8e4m3, .out_dtype = f32, .scaling = scaling};
    for (const std::string& algorithm : linear_algorithms(kind)) {
      LinearOptions options{.algorithm = algorithm};
      if (has_groups(algorithm)) options.groups = most_groups(kind, spec, team_.size());
      const auto plan = std::make_shared<Plan>(team_, spec, options);
      const auto out = std::make_shared<GuardedTensor>(team_, Dims{y_rows, n}, f32);
      const auto sets =
          std::make_shared<const std::array<Inputs, 2>>(std::array{inputs(x_rows, scaling), inputs(x_rows, scaling)});
      runs_.add(plan->describe(), out->view(), [this, plan, out, sets](int set) {
        const Inputs& given = sets->at(static_cast<std::size_t>(set));
        (*plan)({.x = given.x.view(),
                 .weight = given.weight.view(),
                 .x_scale = given.x_scale.view(),
                 .weight_scale = given.weight_scale.view(),
                 .y = out->view()},
                runs_.stream());
      });
    }
  }

  [[nodiscard]] Inputs inputs(std::int64_t x_rows, Scaling scaling) {
    ++inputs_;
    const bool per_row = scaling == Scaling::per_row;
    const auto whole = [](std::uint64_t bits) { return static_cast<double>(bits % 5) - 2; };
    const auto factor = [](std::uint64_t bits) { return static_cast<double>(bits % 2 + 1); };
    const auto own = static_cast<std::uint64_t>(team_.rank());
    return {
        tensor({x_rows, k}, f8e4m3, own, whole), tensor({n, k}, f8e4m3, 100 + own, whole),
        tensor({per_row ? x_rows : 1}, f32, per_row ? 200 + own : 200, factor),  // one for all is equal on all ranks
        tensor({per_row ? n : 1}, f32, 300 + own, factor)};
  }

  template <typename Value>
  [[nodiscard]] GuardedTensor tensor(const Dims& sizes, DType dtype, std::uint64_t which, const Value& value) const {
    const std::uint64_t key = testing::key(testing::seed(), {inputs_, which});
    std::vector<double> values;
    for (std::int64_t i = 0; i < sizes.numel(); ++i) {
      values.push_back(value(testing::random_bits(key, static_cast<std::uint64_t>(i))));
    }
    GuardedTensor tensor(team_, sizes, dtype);
    tensor.set(std::span<const double>(values));
    return tensor;
  }

  Team team_;
  ReplayedRuns& runs_;
  std::int64_t tokens_;
  std::uint64_t inputs_ = 0;
};

/// 10^4, scaled by TANDEM_TEST_SCALE.
int replays() { return static_cast<int>(std::ceil(1e4 * testing::stress_scale())); }

/// On the node's GPUs (up to 4), or two ranks that share one.
int ranks_on(DeviceType type) { return std::clamp(device_count(type), 2, 4); }

constexpr std::chrono::seconds limit{580};

/// By each algorithm, of few tokens and in several groups.
TEST_P(ReplayStress, EveryLinearOperation) {
  on(ranks_on(GetParam()),
     [](World& world) {
       ReplayedRuns runs(world.team());
       const LinearOperations few(world.team(), runs, 3);
       const LinearOperations many(world.team(), runs, 61);
       runs.replay(replays());
     },
     {.limit = limit});
}

/// So many tokens that "sequence" communicates, before or after its GEMM, in kernels that access all ranks' memory.
TEST_P(ReplayStress, LargeLinearOperations) {
  on(ranks_on(GetParam()),
     [](World& world) {
       ReplayedRuns runs(world.team());
       const LinearOperations large(world.team(), runs, 60'000);
       runs.replay(replays());
     },
     {.limit = limit});
}

TEST_P(ReplayStress, LayersOf8BitFloats) {
  on(ranks_on(GetParam()),
     [](World& world) {
       ReplayedRuns runs(world.team());
       const Float8Layers few(world.team(), runs, 3);
       const Float8Layers many(world.team(), runs, 61);
       runs.replay(replays());
     },
     {.limit = limit});
}

TEST_P(ReplayStress, EveryLinearOperationInBf16BesideAnotherTeams) {
  on(ranks_on(GetParam()),
     [](World& world) {
       std::vector<int> backwards;
       for (int rank = world.size() - 1; rank >= 0; --rank) backwards.push_back(rank);
       const Team other = world.team(backwards);
       ReplayedRuns one_teams(world.team());
       ReplayedRuns other_teams(other);
       const LinearOperations one(world.team(), one_teams, 61, bf16);
       const LinearOperations another(other, other_teams, 45);
       ReplayedRuns::replay_beside(std::array{&one_teams, &other_teams}, replays());
     },
     {.limit = limit});
}

INSTANTIATE_TEST_SUITE_P(Device, ReplayStress, ::testing::Values(DeviceType::cuda), testing::device_name);

}  // namespace
}  // namespace tandem
