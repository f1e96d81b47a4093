// SPDX-License-Identifier: Apache-2.0
// What the linear operations' plans have in common.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <regex>
#include <string>
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

class LinearPlans : public testing::OnEachDevice {};

TEST_P(LinearPlans, HandOnThatTheirProductsMayRoundToTf32) {
  // The product's own words: the plan's say what was asked for. Compiled once, since libstdc++'s compilers of regular
  // expressions race for the locale's cache.
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

// Beside the plan's own memory that peers reach, and with runs into plain memory in between: the same bits.
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
        plan(x.view(), weight_on.view(), y, stream);
        team.synchronize(stream);
        testing::Bytes got(y.bytes());
        device->download(got.data(), y.data(), got.size());
        EXPECT_TRUE(got == plain.get()) << "run " << run << "\n" << plan.describe();
      }
    };
    for (const std::string& algorithm : linear_algorithms(LinearKind::linear_all_reduce)) {
      check({.m = 37, .n = 21, .k = 13, .dtype = bf16}, algorithm);
      check({.m = 2100, .n = 520, .k = 8}, algorithm);  // more than mailboxes take
    }
    team.barrier();
  });
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

// Each would choose by its own share: who has little to multiply would cut it finer.
TEST(LinearPlanChoices, GroupsAreEqualOnRanksOfUnlikeShares) {
  testing::RankOptions options;
  options.env.link = LinkOptions{.latency = std::chrono::microseconds(20), .bytes_per_second = 0.2e9};
  testing::run_ranks(
      2,
      [](World& world) {
        const Team& team = world.team();
        LinearSpec spec{.m = 2048, .n = 1024, .k = 64};
        const auto own_choice = [&] {
          return choose(LinearKind::linear_reduce_scatter, spec, 2, team.device().costs(), {.algorithm = "pipeline"})
              .groups;
        };
        const int of_few = own_choice();
        while (own_choice() == of_few && spec.k < 8192) spec.k *= 2;
        ASSERT_NE(own_choice(), of_few) << "no share takes another number of groups";
        if (team.rank() == 1) spec.k = 64;
        const int groups = LinearReduceScatter(team, spec, {.algorithm = "pipeline"}).choice().groups;
        Parcel mine{.bytes = {static_cast<std::byte>(groups)}, .descriptors = {}};
        for (const Parcel& parcel : team.exchange("groups", std::move(mine))) {
          EXPECT_EQ(static_cast<int>(parcel.bytes.front()), groups) << "on rank " << team.rank();
        }
      },
      options);
}

}  // namespace
}  // namespace tandem
