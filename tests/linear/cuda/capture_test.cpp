// SPDX-License-Identifier: Apache-2.0
// Linear operations captured into CUDA graphs.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/bulk_overlap.hpp"
#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"
#include "tandem/linear/tuned_product.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "linear/communication.hpp"
#include "linear/plan_cache_folder.hpp"
#include "linear/tensors.hpp"
#include "support/cuda/captured_graph.hpp"
#include "support/cuda/memory_lost.hpp"

namespace tandem {
namespace {

using testing::CapturedGraph;
using testing::GuardedTensor;

class LinearCapture : public testing::PlanCacheFolder {};

void copy(const GuardedTensor& from, const GuardedTensor& to, const Stream& stream) {
  stream.device().copy(stream, {.dst = to.view().data(), .src = from.view().data(), .bytes = to.view().bytes()});
}

/// Captures `run` before it ever ran, then alternates replays with eager runs (which other tests compare with fp64):
/// both must give the same bits in `out` for the same inputs. Inputs change from run to run, and results are copied out
/// in stream order only, so that a run that overtakes another, on any rank, is noticed.
void check_replays(const Team& team, const std::vector<GuardedTensor>& inputs, GuardedTensor& out,
                   const std::string& what, const std::function<void(StreamRef)>& run) {
  const Stream stream(team.device());
  const CapturedGraph graph(team.device(), stream, [&] { run(stream); });
  const auto own = static_cast<std::uint64_t>(team.rank());
  constexpr std::uint64_t runs = 3;
  std::vector<std::vector<GuardedTensor>> given(runs);
  std::vector<GuardedTensor> results;
  for (std::vector<GuardedTensor>& set : given) {
    for (const GuardedTensor& input : inputs) set.emplace_back(team, input.view().sizes(), input.view().dtype());
    results.emplace_back(team, out.view().sizes(), out.view().dtype());
  }
  for (std::uint64_t round = 0; round < 3; ++round) {
    auto bits = [key = testing::key(testing::seed(), {round, own}), index = std::uint64_t{0}]() mutable {
      return testing::random_bits(key, index++);
    };
    for (std::vector<GuardedTensor>& set : given) {
      for (GuardedTensor& input : set) {
        input.set(std::span<const double>(testing::random_values(bits(), input.view().numel(), input.view().dtype())));
      }
    }
    const auto results_of = [&](const auto& once) {
      out.poison();
      for (std::uint64_t i = 0; i < runs; ++i) {
        for (std::size_t which = 0; which < inputs.size(); ++which) copy(given[i][which], inputs[which], stream);
        testing::maybe_delay(stream, bits());
        once();
        copy(out, results[i], stream);
      }
      team.synchronize(stream);
      std::vector<testing::Bytes> all;
      for (const GuardedTensor& result : results) all.push_back(result.get());
      return all;
    };
    const auto eager = results_of([&] { run(stream); });
    const auto replayed = results_of([&] { graph.launch(stream); });
    for (std::uint64_t i = 0; i < runs; ++i) {
      EXPECT_TRUE(replayed[i] == eager[i])
          << what << ", replay " << i << " of round " << round << ", rank " << own << " of " << team.size();
    }
  }
  team.barrier();
}

constexpr std::int64_t m = 45;
constexpr std::int64_t n = 24;
constexpr std::int64_t k = 40;

/// Each algorithm in both dtypes, with the number of groups that the model chooses and with the largest possible one.
template <typename Check> void for_each_plan(const Team& team, LinearKind kind, const Check& check) {
  const int most = most_groups(kind, {.m = m, .n = n, .k = k}, team.size());
  for (const std::string& algorithm : linear_algorithms(kind)) {
    for (const DType dtype : {f32, bf16}) {
      check(LinearOptions{.algorithm = algorithm}, dtype);
      if (has_groups(algorithm) && most > 0) check(LinearOptions{.algorithm = algorithm, .groups = most}, dtype);
    }
  }
}

void check_gathering(const Team& team) {
  const std::int64_t own = shard_of(m, team.size(), team.rank()).count;
  for_each_plan(team, LinearKind::all_gather_linear, [&](const LinearOptions& options, DType dtype) {
    AllGatherLinear plan(team, {.m = m, .n = n, .k = k, .dtype = dtype}, options);
    std::vector<GuardedTensor> inputs;
    inputs.emplace_back(team, Dims{own, k}, dtype);
    inputs.emplace_back(team, Dims{n, k}, dtype);
    GuardedTensor y(team, {m, n}, dtype);
    check_replays(team, inputs, y, plan.describe(),
                  [&](StreamRef stream) { plan(inputs[0].view(), inputs[1].view(), y.view(), stream); });
  });
  for_each_plan(team, LinearKind::linear_weight_gradient, [&](const LinearOptions& options, DType dtype) {
    for (const DType gradient : testing::gradient_dtypes(dtype)) {
      const LinearSpec spec{.m = m, .n = n, .k = k, .dtype = dtype, .gradient_dtype = gradient};
      LinearWeightGradient plan(team, spec, GatheredOperand::x, options);
      std::vector<GuardedTensor> inputs;
      inputs.emplace_back(team, Dims{m, n}, dtype);
      inputs.emplace_back(team, Dims{own, k}, dtype);
      GuardedTensor dw(team, {n, k}, gradient);
      const auto run = [&](StreamRef stream) { plan(inputs[0].view(), inputs[1].view(), dw.view(), stream); };
      check_replays(team, inputs, dw, plan.describe(), run);
      check_replays(team, inputs, dw, plan.describe() + ", started ahead", [&](StreamRef stream) {
        plan.start(inputs[1].view(), m, stream);
        run(stream);
      });
    }
  });
}

void check_reducing(const Team& team) {
  const std::int64_t own = shard_of(m, team.size(), team.rank()).count;
  const auto check = [&](auto& plan, GuardedTensor y, DType dtype) {
    std::vector<GuardedTensor> inputs;
    inputs.emplace_back(team, Dims{m, k}, dtype);
    inputs.emplace_back(team, Dims{n, k}, dtype);
    check_replays(team, inputs, y, plan.describe(),
                  [&](StreamRef stream) { plan(inputs[0].view(), inputs[1].view(), y.view(), stream); });
  };
  for_each_plan(team, LinearKind::linear_reduce_scatter, [&](const LinearOptions& options, DType dtype) {
    LinearReduceScatter scatter(team, {.m = m, .n = n, .k = k, .dtype = dtype}, options);
    check(scatter, GuardedTensor(team, {own, n}, dtype), dtype);
  });
  for_each_plan(team, LinearKind::linear_all_reduce, [&](const LinearOptions& options, DType dtype) {
    LinearAllReduce reduce(team, {.m = m, .n = n, .k = k, .dtype = dtype}, options);
    check(reduce, GuardedTensor(team, {m, n}, dtype), dtype);
  });
}

TEST_P(LinearCapture, ReplaysAndEagerRunsTakeTurns) {
  for (const int ranks : testing::team_sizes()) {
    on(ranks, [](World& world) {
      check_gathering(world.team());
      check_reducing(world.team());
    });
  }
}

/// Of 8-bit floats, with a scale for each row; also on few SMs, or none, where scales take other ways.
TEST_P(LinearCapture, ReplaysScaleRows) {
  constexpr LinearSpec spec{.m = m, .n = 32, .k = 48, .dtype = f8e4m3, .scaling = Scaling::per_row};
  const auto check = [&]<typename Plan>(const Team& team, LinearKind kind, std::int64_t x_rows, std::int64_t y_rows,
                                        std::type_identity<Plan>) {
    for (const std::string& algorithm : linear_algorithms(kind)) {
      for (const std::optional<int> sms : {std::optional<int>(), std::optional(1), std::optional(0)}) {
        if (sms == 0 && kind != LinearKind::all_gather_linear) continue;
        Plan plan(team, spec, LinearOptions{.algorithm = algorithm, .sms = sms});
        std::vector<GuardedTensor> inputs;
        inputs.emplace_back(team, Dims{x_rows, spec.k}, f8e4m3);
        inputs.emplace_back(team, Dims{spec.n, spec.k}, f8e4m3);
        inputs.emplace_back(team, Dims{x_rows}, f32);
        inputs.emplace_back(team, Dims{spec.n}, f32);
        GuardedTensor y(team, {y_rows, spec.n}, bf16);
        check_replays(team, inputs, y, plan.describe(), [&](StreamRef stream) {
          plan({.x = inputs[0].view(),
                .weight = inputs[1].view(),
                .x_scale = inputs[2].view(),
                .weight_scale = inputs[3].view(),
                .y = y.view()},
               stream);
        });
      }
    }
  };
  for (const int ranks : {2, 3}) {
    on(ranks, [&](World& world) {
      const Team& team = world.team();
      const std::int64_t own = shard_of(m, team.size(), team.rank()).count;
      check(team, LinearKind::all_gather_linear, own, m, std::type_identity<AllGatherLinear>());
      check(team, LinearKind::linear_reduce_scatter, m, own, std::type_identity<LinearReduceScatter>());
      check(team, LinearKind::linear_all_reduce, m, m, std::type_identity<LinearAllReduce>());
    });
  }
}

/// With few tokens, and with too many for mailboxes.
TEST_P(LinearCapture, ReplaysLeaveASumInASymmetricTensor) {
  on(3, [](World& world) {
    const Team& team = world.team();
    for_each_plan(team, LinearKind::linear_all_reduce, [&](const LinearOptions& options, DType dtype) {
      for (const LinearSpec& spec : {LinearSpec{.m = m, .n = n, .k = k, .dtype = dtype},
                                     LinearSpec{.m = 2100, .n = 520, .k = 8, .dtype = dtype}}) {
        LinearAllReduce plan(team, spec, options);
        SymmetricTensor y = SymmetricTensor::empty(team, {spec.m, spec.n}, dtype);
        y.rendezvous();
        std::vector<GuardedTensor> inputs;
        inputs.emplace_back(team, Dims{spec.m, spec.k}, dtype);
        inputs.emplace_back(team, Dims{spec.n, spec.k}, dtype);
        GuardedTensor taken(team, {spec.m, spec.n}, dtype);
        check_replays(team, inputs, taken, plan.describe() + " into a symmetric tensor", [&](StreamRef stream) {
          plan(inputs[0].view(), inputs[1].view(), y, stream);
          team.device().copy(stream,
                             {.dst = taken.view().data(), .src = y.local().data(), .bytes = taken.view().bytes()});
        });
      }
    });
  });
}

/// Replays a plan's runs with any operand layouts and epilogue. The second half of `made`, if any, is the auxiliary
/// output.
template <typename Plan> void check_epilogue(const Team& team, const LinearSpec& spec, const LinearOptions& options) {
  constexpr bool gathers = std::is_same_v<Plan, AllGatherLinear>;
  constexpr bool scatters = std::is_same_v<Plan, LinearReduceScatter>;
  Plan plan(team, spec, options);
  const std::int64_t own = shard_of(spec.m, team.size(), team.rank()).count;
  const std::int64_t rows = scatters ? own : spec.m;
  const bool keeps = spec.auxiliary != Auxiliary::none;
  const auto stored = [](Layout layout, std::int64_t its_rows, std::int64_t columns) {
    return layout == Layout::normal ? Dims{its_rows, columns} : Dims{columns, its_rows};
  };
  std::vector<GuardedTensor> inputs;
  inputs.emplace_back(team, stored(spec.x_layout, gathers ? own : spec.m, spec.k), spec.dtype);
  inputs.emplace_back(team, stored(spec.weight_layout, spec.n, spec.k), spec.dtype);
  inputs.emplace_back(team, Dims{spec.bias ? spec.n : 0}, spec.dtype);
  inputs.emplace_back(team, Dims{spec.beta == 0.0F ? 0 : rows, spec.n}, spec.dtype);
  GuardedTensor made(team, {keeps ? 2 * rows : rows, spec.n}, spec.dtype);
  const TensorView y = made.view().narrow(0, 0, rows);
  check_replays(team, inputs, made, plan.describe(), [&](StreamRef stream) {
    const TensorView start = inputs[3].view();
    team.device().copy(stream, {.dst = y.data(), .src = start.data(), .bytes = start.bytes()});
    const TensorView bias = spec.bias ? inputs[2].view() : TensorView();
    if constexpr (gathers) {
      const TensorView aux = keeps ? made.view().narrow(0, rows, rows) : TensorView();
      plan(inputs[0].view(), inputs[1].view(), bias, aux, y, stream);
    } else {
      plan(inputs[0].view(), inputs[1].view(), bias, y, stream);
    }
  });
}

class EpilogueCapture : public testing::OnEachDevice {};

TEST_P(EpilogueCapture, OfAGather) {
  on(3, [](World& world) {
    testing::for_each_epilogue(LinearKind::all_gather_linear, Activation::gelu_tanh, 0.5F,
                               [&](LinearSpec spec, const LinearOptions& options) {
                                 spec.tf32 = spec.dtype == f32;
                                 if (spec.activation != Activation::none) spec.auxiliary = Auxiliary::output;
                                 check_epilogue<AllGatherLinear>(world.team(), spec, options);
                               });
  });
}

template <typename Plan> void check_epilogues_of_sums(World& world, LinearKind kind) {
  testing::for_each_epilogue(kind, Activation::gelu_erf, 0.5F, [&](LinearSpec spec, LinearOptions options) {
    // Two ranks run differently only in algorithms with groups, and only with at least two groups.
    if (world.size() == 2 && !has_groups(options.algorithm)) return;
    if (world.size() == 2) options.groups = 2;
    spec.tf32 = spec.dtype == f32;
    check_epilogue<Plan>(world.team(), spec, options);
  });
}

TEST_P(EpilogueCapture, OfAReducedScatteredSum) {
  for (const int ranks : {2, 3}) {
    on(ranks,
       [](World& world) { check_epilogues_of_sums<LinearReduceScatter>(world, LinearKind::linear_reduce_scatter); });
  }
}

TEST_P(EpilogueCapture, OfASumThatAllHave) {
  for (const int ranks : {2, 3}) {
    on(ranks, [](World& world) { check_epilogues_of_sums<LinearAllReduce>(world, LinearKind::linear_all_reduce); });
  }
}

// Rows that do not fit vector accesses, too large for mailboxes: "sequence" pushes them, and an all-reduce copies sums.
TEST_P(EpilogueCapture, OddRowsInSequence) {
  on(3, [](World& world) {
    const LinearOptions options{.algorithm = "sequence"};
    LinearSpec spec{.m = 1700, .n = 2047, .k = 16, .dtype = bf16};
    check_epilogue<LinearReduceScatter>(world.team(), spec, options);
    spec.bias = true;
    spec.activation = Activation::gelu_tanh;
    check_epilogue<LinearAllReduce>(world.team(), spec, options);
    spec.beta = 0.5F;
    check_epilogue<LinearReduceScatter>(world.team(), spec, options);
    check_epilogue<AllGatherLinear>(world.team(), {.m = 1700, .n = 16, .k = 2047, .dtype = bf16}, options);
  });
}

TEST_P(LinearCapture, PlansAndGraphsGiveAllMemoryBack) {
  on(2, [](World& world) {
    const auto once = [&] {
      check_gathering(world.team());
      check_reducing(world.team());
    };
    EXPECT_LT(testing::memory_lost(world.team(), 3, std::chrono::seconds(10), once), testing::memory_not_lost);
  });
}

TEST_P(LinearCapture, ReplaysRunTunedProducts) {
  on(
      2,
      [](World& world) {
        const PlanCache cache(world.env().plan_cache);
        const GemmSpec product{.m = m, .n = n, .k = k, .transpose_b = true};
        const auto gemm = world.device().gemm(product);
        for (const std::int64_t rows : tuned_rows(product)) {
          if (!world.device().has_gemm_algorithms() || world.rank() != 0) continue;
          cache.keep(product_cache_key(product, rows, world.device()),
                     {.algorithm = gemm->algorithms(rows).back(), .groups = 0, .seconds = 1e-6});
        }
        const bool tuned =
            AllGatherLinear(world.team(), {.m = m, .n = n, .k = k}).describe().find("tuned for m = 45") !=
            std::string::npos;
        EXPECT_EQ(tuned, world.device().has_gemm_algorithms());
        check_gathering(world.team());
        check_reducing(world.team());
      },
      reading(at("plans")));
}

TEST_P(LinearCapture, WhatARunGatheredIsKeptUntilTheNext) {
  on(3, [](World& world) {
    const Team& team = world.team();
    for (const char* algorithm : {"pipeline", "sequence"}) {
      for (const int eager_runs : {0, 1, 2}) {  // before the capture
        AllGatherLinear plan(team, {.m = m, .n = n, .k = k}, {.algorithm = algorithm, .keep_gathered = true});
        std::vector<GuardedTensor> inputs;
        inputs.emplace_back(team, Dims{shard_of(m, team.size(), team.rank()).count, k}, f32);
        inputs.emplace_back(team, Dims{n, k}, f32);
        const GuardedTensor y(team, {m, n}, f32);
        GuardedTensor kept(team, {m, k}, f32);
        const auto run = [&](StreamRef stream) {
          plan(inputs[0].view(), inputs[1].view(), y.view(), stream);
          if (team.rank() == 1) {  // the other ranks' next run must not overtake a late reader
            team.device().launch(stream, [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
          }
          team.device().copy(stream,
                             {.dst = kept.view().data(), .src = plan.gathered().data(), .bytes = kept.view().bytes()});
        };
        const Stream stream(team.device());
        for (int i = 0; i < eager_runs; ++i) run(stream);
        {
          const CapturedGraph never_launched(team.device(), stream, [&] { run(stream); });
        }
        for (int i = 0; i < 3; ++i) run(stream);
        team.synchronize(stream);
        check_replays(team, inputs, kept, plan.describe(), run);
      }
    }
  });
}

TEST_P(LinearCapture, WhatADroppedCaptureStartedIsForgotten) {
  on(2, [](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    LinearWeightGradient plan(team, {.m = m, .n = n, .k = k}, GatheredOperand::x);
    GuardedTensor x(team, {shard_of(m, team.size(), team.rank()).count, k}, f32);
    GuardedTensor dy(team, {m, n}, f32);
    GuardedTensor dw(team, {n, k}, f32);
    for (GuardedTensor* input : {&x, &dy}) {
      input->set(std::span<const double>(testing::random_values(testing::seed(), input->view().numel(), f32)));
    }
    const auto result = [&] {
      plan(dy.view(), x.view(), dw.view(), stream);
      team.synchronize(stream);
      testing::Bytes bytes = dw.get();
      dw.poison();
      return bytes;
    };
    plan.start(x.view(), m, stream);
    const testing::Bytes wanted = result();
    const auto drop = [&] {
      struct Dropped {};
      EXPECT_THROW(CapturedGraph(team.device(), stream,
                                 [&] {
                                   plan.start(x.view(), m, stream);
                                   throw Dropped();
                                 }),
                   Dropped);
    };
    drop();
    plan.start(x.view(), m, stream);
    EXPECT_TRUE(result() == wanted) << "started anew";
    drop();
    result();  // gathers itself; its sums may be in another order, so bits are not compared
  });
}

TEST_P(LinearCapture, ABulkOverlapReplaysBothOfItsParts) {
  on(3, [](World& world) {
    const Team& team = world.team();
    BulkOverlap bulk(team, {.algorithm = "beside"});
    const auto gemm = team.device().gemm({.m = m, .n = n, .k = k, .transpose_b = true});
    for (const testing::Communication& communication : testing::communications(team, m)) {
      std::vector<GuardedTensor> inputs;
      inputs.emplace_back(team, Dims{communication.given}, f32);
      inputs.emplace_back(team, Dims{m, k}, f32);
      inputs.emplace_back(team, Dims{n, k}, f32);
      GuardedTensor both(team, {communication.made + m * n}, f32);
      const TensorView into = both.view().narrow(0, 0, communication.made);
      const TensorView product = both.view().narrow(0, communication.made, m * n);
      check_replays(team, inputs, both, communication.name + " in " + bulk.describe(), [&](StreamRef stream) {
        bulk(
            stream, [&](StreamRef beside) { communication.queue(inputs[0].view(), into, beside); },
            [&](StreamRef main) {
              gemm->run(main, {.a = inputs[1].view().data(), .b = inputs[2].view().data(), .d = product.data()});
            });
      });
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Device, EpilogueCapture, ::testing::Values(DeviceType::cuda), testing::device_name);
INSTANTIATE_TEST_SUITE_P(Device, LinearCapture, ::testing::Values(DeviceType::cuda), testing::device_name);

}  // namespace
}  // namespace tandem
