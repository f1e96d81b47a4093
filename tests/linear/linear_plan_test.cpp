// SPDX-License-Identifier: Apache-2.0
// What the linear operations' plans have in common.
#include "tandem/linear/linear_plan.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <regex>
#include <string>
#include <type_traits>
#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/device/reduce.hpp"
#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/cost_model.hpp"
#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "linear/tensors.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace tandem {
namespace {

// A plan can only be moved to one of its own kind, and moves do not throw.
static_assert(std::is_nothrow_move_constructible_v<AllGatherLinear> &&
              std::is_nothrow_move_assignable_v<AllGatherLinear>);
static_assert(!std::is_move_constructible_v<LinearPlan> && !std::is_move_assignable_v<LinearPlan>);

class LinearPlans : public testing::OnEachDevice {};

TEST_P(LinearPlans, HandOnThatTheirProductsMayRoundToTf32) {
  // As the GEMM's description says it; the plan's only repeats the request. Compiled once for all ranks, since
  // libstdc++'s regex compilers race for the locale's cache.
  const std::regex in_tf32("cublasLt [0-9]+ in TF32|which has no TF32");
  on(2, [&in_tf32](World& world) {
    const Team& team = world.team();
    const LinearSpec spec{.m = 48, .n = 32, .k = 64, .tf32 = true};
    for (const char* algorithm : {"sequence", "pipeline"}) {
      const LinearOptions options{.algorithm = algorithm};
      for (const std::string& text :
           {AllGatherLinear(team, spec, options).describe(), LinearReduceScatter(team, spec, options).describe(),
            LinearAllReduce(team, spec, options).describe(),
            LinearWeightGradient(team, spec, GatheredOperand::x, options).describe()}) {
        EXPECT_TRUE(std::regex_search(text, in_tf32)) << text;
      }
    }
  });
}

// Runs into plain memory alternate with runs into a symmetric y, next to the plan's symmetric memory: the same bits.
TEST_P(LinearPlans, LeaveASumInASymmetricTensorAsInAnyOther) {
  on(3, [](World& world) {
    const Team& team = world.team();
    const auto& device = world.shared_device();
    const auto own = static_cast<std::uint64_t>(team.rank());
    const Stream stream(*device);
    const auto check = [&](const LinearSpec& spec, const std::string& algorithm) {
      LinearAllReduce plan(team, spec, {.algorithm = algorithm});
      SymmetricTensor symmetric = SymmetricTensor::empty(team, {spec.m, spec.n}, spec.dtype);
      symmetric.rendezvous();
      const TensorView y = symmetric.local();
      testing::GuardedTensor plain(team, y.sizes(), spec.dtype);
      const auto weight = testing::Matrix::random(testing::key(testing::seed(), {own}), spec.n, spec.k, spec.dtype);
      const auto weight_on = weight.on(device, spec.dtype);
      for (std::uint64_t run = 0; run < 3; ++run) {
        const auto key = testing::key(testing::seed(), {100 + own, run});
        const auto x = testing::Matrix::random(key, spec.m, spec.k, spec.dtype).on(device, spec.dtype);
        plain.poison();
        device->fill(stream, y.data(), testing::poison_of(spec.dtype), y.bytes());
        testing::maybe_delay(stream, testing::random_bits(key, 0));
        plan(x.view(), weight_on.view(), plain.view(), stream);
        plan(x.view(), weight_on.view(), symmetric, stream);
        team.synchronize(stream);
        testing::Bytes got(y.bytes());
        device->download(got.data(), y.data(), got.size());
        EXPECT_TRUE(got == plain.get()) << "run " << run << "\n" << plan.describe();
      }
    };
    for (const std::string& algorithm : linear_algorithms(LinearKind::linear_all_reduce)) {
      check({.m = 37, .n = 21, .k = 13, .dtype = bf16}, algorithm);
      check({.m = testing::beyond_kernels(world, 2100), .n = 520, .k = 8}, algorithm);  // too large for mailboxes
    }
    team.barrier();
  });
}

// With a bias, the own rows' GEMM is a separate one; without, it is like those for the peer's rows.
TEST_P(LinearPlans, SayHowTheOwnRowsProductsRunThatAdd) {
  for (const int ranks : {2, 3}) {
    on(ranks, [](World& world) {
      const LinearOptions options{.algorithm = "pipeline", .groups = 2};
      for (const bool bias : {false, true}) {
        const LinearSpec spec{.m = 16, .n = 8, .k = 8, .bias = bias};
        for (const std::string& text : {LinearReduceScatter(world.team(), spec, options).describe(),
                                        LinearAllReduce(world.team(), spec, options).describe()}) {
          const bool says = text.find("products of parts: of the own rows, ") != std::string::npos;
          EXPECT_EQ(says, bias && world.size() == 2) << text;
        }
      }
    });
  }
}

TEST_P(LinearPlans, CompareTheirRunsWhereThatIsAskedFor) {
  Env env;
  env.check = RunCheck::runs;
  const auto body = [](World& world) {
    const Team& team = world.team();
    const auto& device = world.shared_device();
    const Stream stream(*device);
    const LinearSpec spec{.m = 8, .n = 16, .k = 16};
    AllGatherLinear gather(team, spec);
    LinearReduceScatter scatter(team, spec);
    LinearAllReduce reduce(team, spec);
    LinearWeightGradient gradient(team, spec, GatheredOperand::x);
    const auto of = [&](std::int64_t rows) { return testing::Matrix::random(1, rows, 16, f32).on(device, f32); };
    const testing::GuardedTensor weight = of(16);
    const testing::GuardedTensor dw = of(16);
    SymmetricTensor symmetric = SymmetricTensor::empty(team, {8, 16}, f32);
    symmetric.rendezvous();
    const auto run = [&](std::int64_t m, const std::function<void(const std::function<void()>&)>& expect) {
      const std::int64_t own = shard_of(m, team.size(), team.rank()).count;
      const testing::GuardedTensor whole = of(m);
      const testing::GuardedTensor out = of(m);
      const testing::GuardedTensor shard = of(own);
      const testing::GuardedTensor own_out = of(own);
      expect([&] { gather(shard.view(), weight.view(), out.view(), stream); });
      expect([&] { scatter(whole.view(), weight.view(), own_out.view(), stream); });
      expect([&] { reduce(whole.view(), weight.view(), out.view(), stream); });
      expect([&] { gradient.start(shard.view(), m, stream); });
      expect([&] { gradient(whole.view(), shard.view(), dw.view(), stream); });
      team.synchronize(stream);
    };
    run(team.rank() == 0 ? 8 : 6, [](const auto& call) {
      testing::expect_error<InvalidArgument>(call, {"with different arguments", "run of 8 tokens", "run of 6 tokens"});
    });
    const testing::GuardedTensor whole = of(8);
    const testing::GuardedTensor out = of(8);
    testing::expect_error<InvalidArgument>(
        [&] {
          if (team.rank() == 0) return reduce(whole.view(), weight.view(), symmetric, stream);
          reduce(whole.view(), weight.view(), out.view(), stream);
        },
        {"8 tokens into symmetric memory ", "8 tokens into a plain view"});
    run(6, [](const auto& call) { call(); });
  };
  on(2, body, {.env = env});
}

TANDEM_ON_EACH_DEVICE(LinearPlans);

TEST(LinearPlanTeams, OfMoreRanksThanASumHasAreToldBeforeAnythingIsMade) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ranks are threads under ThreadSanitizer: so many have too many sockets for one process";
#endif
  testing::run_ranks(max_reduce_operands + 1, [](World& world) {
    const Team& team = world.team();
    const LinearSpec spec{.m = 8, .n = 3, .k = 5};
    const std::string on_rank = " on rank " + std::to_string(team.rank()) + " of 65";
    testing::expect_error<Unsupported>([&] { LinearReduceScatter(team, spec); },
                                       {"LinearReduceScatter" + on_rank, "at most 64 ranks"});
    testing::expect_error<Unsupported>([&] { LinearAllReduce(team, spec); },
                                       {"LinearAllReduce" + on_rank, "at most 64 ranks"});
    team.barrier();
  });
}

/// Runs `check` on ranks with a link so slow that overlap pays.
void over_a_link(int ranks, const std::function<void(const Team&)>& check) {
  testing::RankOptions options;
  options.env.link = LinkOptions{.latency = std::chrono::microseconds(20), .bytes_per_second = 0.2e9};
  testing::run_ranks(ranks, [&](World& world) { check(world.team()); }, options);
}

/// Creates plans in which rank 1 has the smallest share, and the other ranks one with which they alone would choose
/// differently; `told` is the part of the choice that matters. All ranks must end up with the same choice.
template <typename Plan>
void expect_one_choice(const Team& team, LinearKind kind, LinearSpec spec, const LinearOptions& options,
                       const std::function<std::string(const LinearChoice&)>& told) {
  spec.k = 64;
  const auto own = [&] { return told(choose(kind, spec, team.size(), team.device().costs(), options)); };
  const std::string of_few = own();
  while (own() == of_few && spec.k < 8192) spec.k *= 2;
  ASSERT_NE(own(), of_few) << "no share chooses something else";
  if (team.rank() == 1) spec.k = 64;
  const std::string chosen = told(Plan(team, spec, options).choice());
  const auto* const text = reinterpret_cast<const std::byte*>(chosen.data());
  Parcel mine{.bytes = {text, text + chosen.size()}, .descriptors = {}};
  for (const Parcel& parcel : team.exchange("choices", std::move(mine))) {
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(parcel.bytes.data()), parcel.bytes.size()), chosen)
        << "on rank " << team.rank();
  }
}

// Alone, each rank would choose by its own share: a rank with a small GEMM would cut it into more groups.
TEST(LinearPlanChoices, GroupsAreEqualOnRanksOfUnlikeShares) {
  over_a_link(2, [](const Team& team) {
    expect_one_choice<LinearReduceScatter>(team, LinearKind::linear_reduce_scatter, {.m = 2048, .n = 1024},
                                           {.algorithm = "pipeline"},
                                           [](const LinearChoice& choice) { return std::to_string(choice.groups); });
  });
}

// Alone, a rank with a large GEMM would choose to sum round by round.
TEST(LinearPlanChoices, TheAlgorithmIsOneOnRanksOfUnlikeShares) {
  over_a_link(3, [](const Team& team) {
    const auto algorithm = [](const LinearChoice& choice) { return choice.algorithm; };
    for (const LinearOptions& options : {LinearOptions{}, LinearOptions{.groups = 4}}) {
      expect_one_choice<LinearAllReduce>(team, LinearKind::linear_all_reduce, {.m = 1024, .n = 1024}, options,
                                         algorithm);
    }
  });
}

}  // namespace
}  // namespace tandem
