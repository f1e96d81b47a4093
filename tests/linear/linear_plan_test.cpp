// SPDX-License-Identifier: Apache-2.0
// What the linear operations' plans have in common.
#include <chrono>
#include <cstddef>
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
