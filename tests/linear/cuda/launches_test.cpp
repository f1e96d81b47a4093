// SPDX-License-Identifier: Apache-2.0
// What captured linear runs would launch, and in what order.
#include <algorithm>
#include <cstddef>
#include <cuda_runtime_api.h>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <string_view>

#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"

#include "support/cuda/recorded_graph.hpp"
#include "support/devices.hpp"
#include "support/guarded_tensor.hpp"

namespace tandem {
namespace {

using testing::GuardedTensor;
using testing::is_product;
using testing::is_wait;
using testing::is_wait_or_product;

class LinearLaunchesCapture : public testing::OnEachDevice {};

/// What a captured run launches; anything else fails the test.
struct Launches {
  std::size_t kernels = 0;
  std::size_t copies = 0;
  std::size_t fills = 0;  ///< cuBLASLt's kernels that take tiles in turns have a counter to reset
};

Launches launches_of(Device& device, StreamRef stream, const std::function<void()>& run) {
  const testing::RecordedGraph graph(device, stream, run);
  Launches launches;
  for (const cudaGraphNode_t node : graph.nodes()) {
    const cudaGraphNodeType type = testing::RecordedGraph::type_of(node);
    switch (type) {
      case cudaGraphNodeTypeKernel: ++launches.kernels; break;
      case cudaGraphNodeTypeMemcpy: ++launches.copies; break;
      case cudaGraphNodeTypeMemset: ++launches.fills; break;
      default: ADD_FAILURE() << type;
    }
  }
  return launches;
}

/// A gather's operands, of a size for which an eager run's GEMMs alternate between two streams.
struct Gathering {
  explicit Gathering(const Team& team)
      : x(team, {shard_of(spec.m, team.size(), team.rank()).count, spec.k}, spec.dtype),
        weight(team, {spec.n, spec.k}, spec.dtype),
        y(team, {spec.m, spec.n}, spec.dtype) {}

  LinearSpec spec{.m = 768, .n = 256, .k = 128, .dtype = bf16};
  GuardedTensor x, weight, y;
};

/// What plans for a spec launch in addition to the GEMM.
class LaunchesBeside {
 public:
  LaunchesBeside(const Team& team, const LinearSpec& spec)
      : team_(team),
        stream_(team.device()),
        weight_(team, {spec.n, spec.k}, spec.dtype),
        x_(team, {spec.m, spec.k}, spec.dtype),
        x_shard_(team, {own_rows(spec), spec.k}, spec.dtype),
        y_(team, {spec.m, spec.n}, spec.dtype),
        y_shard_(team, {own_rows(spec), spec.n}, spec.dtype) {
    const std::unique_ptr<Gemm> alone = team.device().gemm(
        {.m = spec.m, .n = spec.n, .k = spec.k, .transpose_b = true, .dtype = spec.dtype, .out_dtype = spec.dtype});
    // May be two kernels: a GEMM split along k, and the sum of its parts.
    product_ = launches_of(team.device(), stream_, [&] {
      alone->run(stream_, {.a = x_.view().data(), .b = weight_.view().data(), .d = y_.view().data()});
    });
  }

  void expect(AllGatherLinear plan, const Launches& launches) { expect_of(plan, x_shard_, y_, launches); }
  void expect(LinearReduceScatter plan, const Launches& launches) { expect_of(plan, x_, y_shard_, launches); }
  void expect(LinearAllReduce plan, const Launches& launches) { expect_of(plan, x_, y_, launches); }

 private:
  template <typename Linear>
  void expect_of(Linear& plan, const GuardedTensor& given, const GuardedTensor& made, const Launches& launches) {
    EXPECT_EQ(plan.choice().algorithm, "sequence");
    const bool one_kernel = plan.describe().find("communication: one kernel") != std::string::npos;
    EXPECT_EQ(one_kernel, launches.kernels == 1) << plan.describe();
    const Launches found =
        launches_of(team_.device(), stream_, [&] { plan(given.view(), weight_.view(), made.view(), stream_); });
    EXPECT_EQ(found.kernels, product_.kernels + launches.kernels) << plan.describe();
    EXPECT_EQ(found.copies, launches.copies) << plan.describe();
    EXPECT_EQ(found.fills, product_.fills) << plan.describe();
  }
  [[nodiscard]] std::int64_t own_rows(const LinearSpec& spec) const {
    return shard_of(spec.m, team_.size(), team_.rank()).count;
  }

  Team team_;
  Stream stream_;
  GuardedTensor weight_;
  GuardedTensor x_;
  GuardedTensor x_shard_;
  GuardedTensor y_;
  GuardedTensor y_shard_;
  Launches product_;
};

TEST_P(LinearLaunchesCapture, FewTokensAreAProductAndOneKernelMore) {
  on(3, [](World& world) {
    const Team& team = world.team();
    const LinearSpec spec{.m = 45, .n = 512, .k = 256, .dtype = bf16};
    LaunchesBeside product(team, spec);
    product.expect(AllGatherLinear(team, spec), {.kernels = 1});
    product.expect(LinearReduceScatter(team, spec), {.kernels = 1});
    product.expect(LinearAllReduce(team, spec), {.kernels = 1});
    team.barrier();
  });
}

// An all-reduce of more than two ranks copies the sums from their owners in a second kernel.
TEST_P(LinearLaunchesCapture, MoreTokensInSequenceAreAProductAndOneOrTwoKernelsMore) {
  for (const int ranks : {2, 3}) {
    on(ranks, [](World& world) {
      const Team& team = world.team();
      const LinearSpec spec{.m = 3000, .n = 2048, .k = 1024, .dtype = bf16};
      const LinearOptions options{.algorithm = "sequence"};
      LaunchesBeside product(team, spec);
      product.expect(AllGatherLinear(team, spec, options), {.kernels = 1});
      product.expect(LinearReduceScatter(team, spec, options), {.kernels = 1});
      product.expect(LinearAllReduce(team, spec, options), {.kernels = team.size() == 2 ? 1U : 2U});
      team.barrier();
    });
  }
}

// Rows that do not fit vector accesses: kernels take and grant credits, exchange the parts and sum them. An all-reduce
// also copies the sums from their owners.
TEST_P(LinearLaunchesCapture, OddRowsInSequenceArePushedAtOnce) {
  on(3, [](World& world) {
    const Team& team = world.team();
    const LinearSpec spec{.m = 3000, .n = 2047, .k = 256, .dtype = bf16};
    LaunchesBeside product(team, spec);
    product.expect(LinearReduceScatter(team, spec, {.algorithm = "sequence"}), {.kernels = 4, .copies = 2});
    product.expect(LinearAllReduce(team, spec, {.algorithm = "sequence"}), {.kernels = 6, .copies = 4});
    team.barrier();
  });
}

// In a graph they take no turns (see ProductTurns, and its own test).
TEST_P(LinearLaunchesCapture, ProductsOfACapturedGatherFollowEachOther) {
  on(3, [](World& world) {
    const Team& team = world.team();
    const Gathering with(team);
    const Stream stream(team.device());
    const int most = most_groups(LinearKind::all_gather_linear, with.spec, team.size());
    for (const int groups : {1, 2, most}) {
      for (const int left : {0, 1}) {
        AllGatherLinear plan(team, with.spec, {.algorithm = "pipeline", .groups = groups, .leave_sms = left});
        const testing::RecordedGraph graph(team.device(), stream,
                                           [&] { plan(with.x.view(), with.weight.view(), with.y.view(), stream); });
        EXPECT_EQ(graph.most_kernels_at_once(is_product), 1U) << plan.describe();
        EXPECT_EQ(graph.most_kernels_at_once(is_wait), 1U) << plan.describe();
      }
    }
    team.barrier();  // before any rank releases what was recorded
  });
}

// A push to each peer, and only the last one's signal behind them all.
TEST_P(LinearLaunchesCapture, SignalsOfACapturedGatherHoldUpNoPush) {
  for (const int ranks : {3, 4}) {
    on(ranks, [](World& world) {
      const Team& team = world.team();
      const Gathering with(team);
      const Stream stream(team.device());
      AllGatherLinear plan(team, with.spec, {.algorithm = "pipeline", .groups = 1});
      const testing::RecordedGraph graph(team.device(), stream,
                                         [&] { plan(with.x.view(), with.weight.view(), with.y.view(), stream); });
      const auto peers = static_cast<std::size_t>(team.size()) - 1;
      EXPECT_EQ(graph.longest_chain_of_copies(), peers + 1) << plan.describe();
      team.barrier();  // before any rank releases what was recorded
    });
  }
}

// Between the last GEMM and the sum there is no wait, in a graph.
TEST_P(LinearLaunchesCapture, ACapturedReductionWaitsBesideItsLastProduct) {
  on(3, [](World& world) {
    const Team& team = world.team();
    const LinearSpec spec{.m = 768, .n = 256, .k = 128, .dtype = bf16};
    const GuardedTensor x(team, {spec.m, spec.k}, spec.dtype);
    const GuardedTensor weight(team, {spec.n, spec.k}, spec.dtype);
    const GuardedTensor y(team, {shard_of(spec.m, team.size(), team.rank()).count, spec.n}, spec.dtype);
    const Stream stream(team.device());
    for (const int groups : {1, 2, 6}) {
      LinearReduceScatter plan(team, spec, {.algorithm = "pipeline", .groups = groups});
      const testing::RecordedGraph graph(team.device(), stream,
                                         [&] { plan(x.view(), weight.view(), y.view(), stream); });
      EXPECT_EQ(graph.most_kernels_at_once(is_product), 1U) << plan.describe();
      EXPECT_GT(graph.most_kernels_at_once(is_wait_or_product), 1U) << plan.describe();
    }
    team.barrier();  // before any rank releases what was recorded
  });
}

// keep_gathered includes the own shard's rows: neither their copy nor the pushes wait for GEMMs.
TEST_P(LinearLaunchesCapture, WhatAGatherKeepsIsCopiedBesideProducts) {
  on(3, [](World& world) {
    const Team& team = world.team();
    const Gathering with(team);
    const Stream stream(team.device());
    const auto copies = [&](const testing::RecordedGraph& graph) {
      return std::ranges::count(graph.nodes(), cudaGraphNodeTypeMemcpy, testing::RecordedGraph::type_of);
    };
    std::ptrdiff_t pushes = 0;
    for (const bool keeps : {false, true}) {
      AllGatherLinear plan(team, with.spec, {.algorithm = "pipeline", .keep_gathered = keeps});
      const testing::RecordedGraph graph(team.device(), stream,
                                         [&] { plan(with.x.view(), with.weight.view(), with.y.view(), stream); });
      if (!keeps) pushes = copies(graph);
      EXPECT_EQ(copies(graph), pushes + (keeps ? 1 : 0)) << plan.describe();
      EXPECT_EQ(graph.copies_behind(is_product), 0U) << plan.describe();
    }
    team.barrier();  // before any rank releases what was recorded
  });
}

INSTANTIATE_TEST_SUITE_P(Device, LinearLaunchesCapture, ::testing::Values(DeviceType::cuda), testing::device_name);

}  // namespace
}  // namespace tandem
