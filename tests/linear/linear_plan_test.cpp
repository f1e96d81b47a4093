// SPDX-License-Identifier: Apache-2.0
// What the linear operations' plans have in common.
#include <gtest/gtest.h>
#include <regex>
#include <string>

#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"

#include "support/devices.hpp"

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

}  // namespace
}  // namespace tandem
