// SPDX-License-Identifier: Apache-2.0
// Back-to-back linear operations of several plans, on changing streams.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <span>
#include <string>
#include <vector>

#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"

#include "linear/tensors.hpp"
#include "support/devices.hpp"
#include "support/draws.hpp"

namespace tandem {
namespace {

constexpr std::int64_t most_tokens = 13;
constexpr std::int64_t outputs = 6;
constexpr std::int64_t inputs = 5;

/// Queues runs with tensors of their own, so that only what the plans share orders them, and checks all of them after a
/// synchronization. All ranks draw the same runs. Data is small whole numbers, whose sums are exact in f32.
class Player {
 public:
  Player(const Team& team, std::uint64_t sequence, int runs)
      : team_(team),
        key_(testing::key(testing::seed(), {sequence})),
        draws_(sequence),
        runs_(runs),
        streams_{Stream(team.device()), Stream(team.device()), Stream(team.device())},
        gather_(by_each_algorithm<AllGatherLinear>(team, LinearKind::all_gather_linear, spec())),
        scaled_(by_each_algorithm<AllGatherLinear>(team, LinearKind::all_gather_linear, scaled_spec())),
        scatter_(by_each_algorithm<LinearReduceScatter>(team, LinearKind::linear_reduce_scatter, spec())),
        reduce_(by_each_algorithm<LinearAllReduce>(team, LinearKind::linear_all_reduce, spec())),
        gradient_(by_each_algorithm<LinearWeightGradient>(team, LinearKind::linear_weight_gradient, spec(),
                                                          GatheredOperand::x)) {}

  /// Queues `runs_` runs, and checks each element of their results.
  void play() {
    std::vector<Run> queued;
    for (int i = 0; i < runs_; ++i) queued.push_back(prepared());
    for (const Run& run : queued) queue(run);
    for (const Stream& stream : streams_) team_.synchronize(stream);
    for (const Run& run : queued) check(run);
  }

 private:
  /// `scaled`: a gather of 8-bit floats, and of a scale for each row.
  enum Operation : std::uint64_t { gather, scaled, scatter, reduce, gradient, operations };

  struct Run {
    std::uint64_t number;
    std::uint64_t operation;
    std::size_t algorithm;
    std::size_t stream;
    std::int64_t m;
    testing::GuardedTensor left;   ///< x, or dy
    testing::GuardedTensor right;  ///< the weight, or x
    testing::GuardedTensor result;
    testing::GuardedTensor left_scale;  ///< empty unless `scaled`
    testing::GuardedTensor right_scale;
  };

  static LinearSpec spec() { return {.m = most_tokens, .n = outputs, .k = inputs}; }
  static LinearSpec scaled_spec() {
    LinearSpec scaled = spec();
    scaled.dtype = f8e4m3;
    scaled.out_dtype = f32;
    scaled.scaling = Scaling::per_row;
    return scaled;
  }
  /// Every algorithm; those with groups once with one group and once with as many as possible.
  template <typename Plan, typename... Operands>
  static std::vector<Plan> by_each_algorithm(const Team& team, LinearKind kind, const LinearSpec& spec,
                                             Operands... gathered) {
    std::vector<Plan> plans;
    for (const std::string& algorithm : linear_algorithms(kind)) {
      LinearOptions options{.algorithm = algorithm};
      if (has_groups(algorithm)) {
        options.groups = std::max(most_groups(kind, spec, team.size()), 1);
        plans.push_back(Plan(team, spec, gathered..., options));
        options.groups = 1;
      }
      plans.push_back(Plan(team, spec, gathered..., options));
    }
    return plans;
  }
  [[nodiscard]] std::size_t algorithms_of(std::uint64_t operation) const {
    switch (operation) {
      case scatter: return scatter_.size();
      case reduce: return reduce_.size();
      default: return gather_.size();  // the gradient has as many
    }
  }

  /// Element [row, column] of operand `which` of `rank` in a run.
  [[nodiscard]] double value(const Run& run, std::uint64_t which, int rank, std::int64_t row,
                             std::int64_t column) const {
    const std::uint64_t key = testing::key(key_, {run.number, which, static_cast<std::uint64_t>(rank)});
    return static_cast<double>(testing::random_bits(key, static_cast<std::uint64_t>(row * 64 + column)) % 9) - 4;
  }
  [[nodiscard]] Shard own_rows(std::int64_t m) const { return shard_of(m, team_.size(), team_.rank()); }

  /// The scale of a row of operand `which` of `rank` in a run.
  [[nodiscard]] double scale(const Run& run, std::uint64_t which, int rank, std::int64_t row) const {
    const std::uint64_t key = testing::key(key_, {run.number, 2 + which, static_cast<std::uint64_t>(rank)});
    return static_cast<double>(testing::random_bits(key, static_cast<std::uint64_t>(row)) % 4 + 1);
  }

  [[nodiscard]] testing::GuardedTensor tensor(const Dims& sizes, DType dtype = f32) const {
    return {team_.shared_device(), sizes, dtype};
  }

  [[nodiscard]] Run prepared() {
    const std::uint64_t operation = draws_.below(operations);
    const std::uint64_t algorithm = draws_.below(algorithms_of(operation));
    const std::uint64_t stream = draws_.below(streams_.size());
    const auto m = static_cast<std::int64_t>(draws_.below(most_tokens + 1));
    const std::int64_t own = own_rows(m).count;
    const bool is_gradient = operation == gradient;
    const bool is_scaled = operation == scaled;
    const bool gathers_x = operation == gather || is_scaled;
    const DType dtype = is_scaled ? f8e4m3 : f32;
    Run run{
        .number = number_++,
        .operation = operation,
        .algorithm = algorithm,
        .stream = stream,
        .m = m,
        .left = tensor({gathers_x ? own : m, is_gradient ? outputs : inputs}, dtype),
        .right = tensor({is_gradient ? own : outputs, inputs}, dtype),
        .result = tensor({is_gradient ? outputs : (operation == scatter ? own : m), is_gradient ? inputs : outputs}),
        .left_scale = tensor({is_scaled ? own : 0}),
        .right_scale = tensor({is_scaled ? outputs : 0})};
    run.left.set([&](std::int64_t row, std::int64_t column) { return value(run, 0, team_.rank(), row, column); });
    run.right.set([&](std::int64_t row, std::int64_t column) { return value(run, 1, team_.rank(), row, column); });
    for (const std::uint64_t which : {std::uint64_t{0}, std::uint64_t{1}}) {
      testing::GuardedTensor& scales = which == 0 ? run.left_scale : run.right_scale;
      std::vector<double> values;
      for (std::int64_t row = 0; row < scales.view().numel(); ++row) {
        values.push_back(scale(run, which, team_.rank(), row));
      }
      scales.set(std::span<const double>(values));
    }
    run.result.poison();
    return run;
  }

  void queue(const Run& run) {
    const Stream& stream = streams_[run.stream];
    testing::maybe_delay(stream, testing::random_bits(key_ + run.number, static_cast<std::uint64_t>(team_.rank())), 16);
    const TensorView left = run.left.view();
    const TensorView right = run.right.view();
    const TensorView result = run.result.view();
    switch (run.operation) {
      case gather: return gather_[run.algorithm](left, right, result, stream);
      case scaled:
        return scaled_[run.algorithm]({.x = left,
                                       .weight = right,
                                       .x_scale = run.left_scale.view(),
                                       .weight_scale = run.right_scale.view(),
                                       .y = result},
                                      stream);
      case scatter: return scatter_[run.algorithm](left, right, result, stream);
      case reduce: return reduce_[run.algorithm](left, right, result, stream);
      default: return gradient_[run.algorithm](left, right, result, stream);
    }
  }

  /// Element [i, j] of this rank's result.
  [[nodiscard]] double expected(const Run& run, std::int64_t i, std::int64_t j) const {
    const int me = team_.rank();
    const std::int64_t shard = shard_of(run.m, team_.size(), 0).count;
    double sum = 0;
    if (run.operation == gather || run.operation == scaled) {
      const auto owner = static_cast<int>(i / shard);
      for (std::int64_t k = 0; k < inputs; ++k) {
        sum += value(run, 0, owner, i - owner * shard, k) * value(run, 1, me, j, k);
      }
      if (run.operation == scaled) sum *= scale(run, 0, owner, i - owner * shard) * scale(run, 1, me, j);
    } else if (run.operation == gradient) {
      for (std::int64_t token = 0; token < run.m; ++token) {
        const auto owner = static_cast<int>(token / shard);
        sum += value(run, 0, me, token, i) * value(run, 1, owner, token - owner * shard, j);
      }
    } else {
      const std::int64_t row = i + (run.operation == scatter ? own_rows(run.m).begin : 0);
      for (int rank = 0; rank < team_.size(); ++rank) {
        for (std::int64_t k = 0; k < inputs; ++k) sum += value(run, 0, rank, row, k) * value(run, 1, rank, j, k);
      }
    }
    return sum;
  }

  void check(const Run& run) const {
    const Dims sizes = run.result.view().sizes();
    const std::vector<double> got = testing::load(run.result.get().data(), sizes.numel(), f32);
    for (std::int64_t i = 0; i < sizes[0]; ++i) {
      for (std::int64_t j = 0; j < sizes[1]; ++j) {
        ASSERT_EQ(got[static_cast<std::size_t>(i * sizes[1] + j)], expected(run, i, j))
            << "operation " << run.operation << " by algorithm " << run.algorithm << ", run " << run.number << " of "
            << run.m << " tokens, rank " << team_.rank() << " of " << team_.size() << ": [" << i << ", " << j << "]";
      }
    }
  }

  Team team_;
  std::uint64_t key_;  // for the runs' data and delays
  testing::Draws draws_;
  int runs_;
  std::array<Stream, 3> streams_;
  std::vector<AllGatherLinear> gather_;
  std::vector<AllGatherLinear> scaled_;
  std::vector<LinearReduceScatter> scatter_;
  std::vector<LinearAllReduce> reduce_;
  std::vector<LinearWeightGradient> gradient_;
  std::uint64_t number_ = 0;
};

constexpr int runs_at_once = 100;

class LinearInterleaving : public testing::OnEachDevice {};

TEST_P(LinearInterleaving, RunsFollowEachOtherOnChangingStreams) {
  for (const int ranks : testing::team_sizes()) {
    on(ranks, [](World& world) { Player(world.team(), 1, runs_at_once).play(); });
  }
}

TANDEM_ON_EACH_DEVICE(LinearInterleaving);

class LinearStress : public ::testing::TestWithParam<int> {};

/// 3 · 10^4 runs of the four linear operations, in f32 (one also in 8 bits) and by each algorithm, on teams of 2, 3 and
/// 4; the gradient gathers x. TANDEM_TEST_SCALE scales the number.
TEST_P(LinearStress, RandomOperationsAndDelays) {
  const auto batches = static_cast<int>(std::ceil(1e4 / runs_at_once * testing::stress_scale()));
  testing::run_ranks(GetParam(),
                     [batches](World& world) {
                       Player player(world.team(), 2, runs_at_once);
                       for (int batch = 0; batch < batches; ++batch) player.play();
                     },
                     {.limit = std::chrono::seconds(280)});
}

INSTANTIATE_TEST_SUITE_P(Ranks, LinearStress, ::testing::Values(2, 3, 4), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace tandem
