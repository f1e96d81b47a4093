// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/tuned_choice.hpp"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"

#include "linear/plan_cache_folder.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using testing::contents_of;
using testing::expect_says;

class TunedChoices : public testing::PlanCacheFolder {};

constexpr LinearSpec tuned_spec{.m = 48, .n = 16, .k = 24};
const TunedChoice finest{.algorithm = "pipeline", .groups = 8, .seconds = 7e-6};

TEST(PlanCacheKey, IsTheSameForTheSameWork) {
  const auto device = open_device({DeviceType::host, 0});
  const auto key = [&](const LinearSpec& of) { return plan_cache_key(LinearKind::all_gather_linear, of, 3, *device); };
  LinearSpec same = tuned_spec;
  same.bias = true;
  same.activation = Activation::gelu_tanh;
  same.alpha = 2;
  same.beta = 1;
  EXPECT_EQ(key(same), key(tuned_spec));
  for (const auto& change :
       {+[](LinearSpec& s) { s.m = 47; }, +[](LinearSpec& s) { s.n = 17; }, +[](LinearSpec& s) { s.k = 23; },
        +[](LinearSpec& s) { s.dtype = bf16; }, +[](LinearSpec& s) { s.tf32 = true; },
        +[](LinearSpec& s) { s.x_layout = Layout::transposed; },
        +[](LinearSpec& s) { s.weight_layout = Layout::transposed; },
        +[](LinearSpec& s) { s.gradient_dtype = bf16; }}) {
    LinearSpec changed = tuned_spec;
    change(changed);
    EXPECT_NE(key(changed), key(tuned_spec)) << key(changed);
  }
  EXPECT_NE(key(tuned_spec), plan_cache_key(LinearKind::linear_all_reduce, tuned_spec, 3, *device));
}

TEST(PlanCacheKey, TellsLayersOf8BitFloatsApart) {
  const auto device = open_device({DeviceType::host, 0});
  const auto key = [&](const LinearSpec& of) { return plan_cache_key(LinearKind::all_gather_linear, of, 3, *device); };
  const LinearSpec narrow{.m = 48, .n = 16, .k = 24, .dtype = f8e4m3};
  LinearSpec same = narrow;
  same.weight_dtype = f8e4m3;
  same.out_dtype = bf16;
  EXPECT_EQ(key(same), key(narrow)) << "the defaults";
  for (const auto& change :
       {+[](LinearSpec& s) { s.weight_dtype = f8e5m2; }, +[](LinearSpec& s) { s.out_dtype = f16; },
        +[](LinearSpec& s) { s.scaling = Scaling::per_tensor; }, +[](LinearSpec& s) { s.scaling = Scaling::per_row; },
        +[](LinearSpec& s) { s.fast_accum = true; }}) {
    LinearSpec changed = narrow;
    change(changed);
    EXPECT_NE(key(changed), key(narrow)) << key(changed);
  }
}

// Otherwise a run could use what was measured for another way of summing.
TEST(PlanCacheKey, IsAnotherWhereSumsAreMadeInAnotherWay) {
  const auto device = open_device({DeviceType::host, 0});
  LinearSpec added = tuned_spec;
  added.beta = 0.5F;
  LinearSpec activated = tuned_spec;
  activated.activation = Activation::gelu_erf;
  for (const LinearKind kind : {LinearKind::linear_reduce_scatter, LinearKind::linear_all_reduce}) {
    const auto differs = [&](const LinearSpec& other, int ranks) {
      return plan_cache_key(kind, other, ranks, *device) != plan_cache_key(kind, tuned_spec, ranks, *device);
    };
    for (const int ranks : {2, 3}) {
      EXPECT_TRUE(differs(added, ranks)) << name(kind) << " of " << ranks;
      EXPECT_EQ(differs(activated, ranks), ranks == 2) << name(kind) << " of " << ranks;
    }
    LinearSpec biased = tuned_spec;
    biased.bias = true;
    EXPECT_FALSE(differs(biased, 2));
    // Only whether something is added matters, not its factor.
    LinearSpec more = added;
    more.beta = 2;
    EXPECT_EQ(plan_cache_key(kind, more, 2, *device), plan_cache_key(kind, added, 2, *device));
  }
}

// A pipeline widens a 16-bit dW before it adds to it.
TEST(PlanCacheKey, IsAnotherWhereAGradientOf16BitsIsAddedTo) {
  const auto device = open_device({DeviceType::host, 0});
  const auto differs = [&](DType gradient) {
    LinearSpec made{.m = 48, .n = 16, .k = 24, .dtype = bf16, .gradient_dtype = gradient};
    const std::string key = plan_cache_key(LinearKind::linear_weight_gradient, made, 3, *device);
    made.beta = 1;
    return plan_cache_key(LinearKind::linear_weight_gradient, made, 3, *device) != key;
  };
  EXPECT_TRUE(differs(bf16));
  EXPECT_FALSE(differs(f32));
}

TEST_P(TunedChoices, CountUnlessTheOptionsChoose) {
  on(1, [&](World& world) {
    const Device& device = world.device();
    const auto chosen = [&](const LinearOptions& options, int ranks = 3) {
      return choose_tuned(LinearKind::all_gather_linear, tuned_spec, ranks, device, options, cache(), Log());
    };
    const LinearChoice model = choose(LinearKind::all_gather_linear, tuned_spec, 3, device.costs());
    EXPECT_EQ(to_string(chosen({})), to_string(model));
    cache().keep(plan_cache_key(LinearKind::all_gather_linear, tuned_spec, 3, device), finest);
    EXPECT_EQ(chosen({}).algorithm, "pipeline");
    EXPECT_EQ(chosen({}).groups, 8);
    expect_says(to_string(chosen({})), {"pipeline in 8 groups (tuned: it took 7.0 us", cache().path()});
    EXPECT_EQ(chosen({.algorithm = "sequence"}).why, "asked for");
    EXPECT_EQ(chosen({.groups = 2}).groups, 2);
    for (const int sms : {0, 8}) {  // the measurement was without a limit
      EXPECT_EQ(chosen({.sms = sms}).why, model.why);
    }
    EXPECT_EQ(chosen({}, 4).why, choose(LinearKind::all_gather_linear, tuned_spec, 4, device.costs()).why);
  });
}

TEST_P(TunedChoices, ThatAreNotPossibleAreIgnored) {
  on(1, [&](World& world) {
    const Device& device = world.device();
    const std::string key = plan_cache_key(LinearKind::all_gather_linear, tuned_spec, 3, device);
    const LinearChoice model = choose(LinearKind::all_gather_linear, tuned_spec, 3, device.costs());
    for (const TunedChoice& kept :
         {TunedChoice{"pipeline", 1000, 1e-6}, TunedChoice{"pipeline", -1, 1e-6}, TunedChoice{"direct", 0, 1e-6},
          TunedChoice{"sequence", 2, 1e-6}, TunedChoice{"telepathy", 0, 1e-6}}) {
      cache().keep(key, kept);
      fs::remove(at("log"));
      const LinearChoice choice = choose_tuned(LinearKind::all_gather_linear, tuned_spec, 3, device, {}, cache(),
                                               Log(LogLevel::warn, at("log"), 0));
      EXPECT_EQ(to_string(choice), to_string(model)) << kept.algorithm;
      expect_says(contents_of(at("log")), {cache().path(), "is ignored"});
    }
  });
}

// Each rank has a cache file of its own, or none: all use the first rank's entry.
TEST_P(TunedChoices, AreTheFirstRanksForAll) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ranks are threads under ThreadSanitizer, and share a folder";
#endif
  testing::RankOptions options = reading("plans");
  options.kind = testing::RankKind::processes;
  options.before_init = [&](int rank) {
    const std::string folder = at("rank" + std::to_string(rank));
    fs::create_directories(folder);
    ASSERT_EQ(::chdir(folder.c_str()), 0);
  };
  on(
      3,
      [&](World& world) {
        const std::string key = plan_cache_key(LinearKind::all_gather_linear, tuned_spec, 3, world.device());
        if (world.rank() == 0) PlanCache("plans").keep(key, finest);
        if (world.rank() == 2) PlanCache("plans").keep(key, {.algorithm = "sequence", .groups = 0, .seconds = 1});
        world.team().barrier();
        const AllGatherLinear plan(world.team(), tuned_spec);
        EXPECT_EQ(plan.choice().algorithm, "pipeline");
        EXPECT_EQ(plan.choice().groups, 8);
        expect_says(plan.describe(), {"pipeline in 8 groups", "tuned: it took 7.0 us"});
        // With the ranks in reverse order, another rank is the first.
        const Team reversed = world.team({2, 1, 0});
        EXPECT_EQ(AllGatherLinear(reversed, tuned_spec).choice().algorithm, "sequence");
        EXPECT_EQ(AllGatherLinear(world.team(), tuned_spec, {.algorithm = "sequence"}).choice().why, "asked for");
      },
      options);
}

// dW = dyᵀ·x is the same work, whichever operand is gathered.
TEST_P(TunedChoices, OfAWeightGradientAreOfTheOperandThatIsGathered) {
  on(
      2,
      [&](World& world) {
        const LinearSpec gathers_x{.m = 48, .n = 8, .k = 24};
        const LinearSpec gathers_dy{.m = 48, .n = 24, .k = 8};
        if (world.rank() == 0) {
          cache().keep(plan_cache_key(LinearKind::linear_weight_gradient, gathers_x, 2, world.device()), finest);
        }
        world.team().barrier();
        EXPECT_EQ(LinearWeightGradient(world.team(), gathers_x, GatheredOperand::x).choice().groups, 8);
        EXPECT_EQ(LinearWeightGradient(world.team(), gathers_dy, GatheredOperand::dy).choice().groups, 8);
      },
      reading(cache().path()));
}

TEST_P(TunedChoices, OfADamagedFileAreNone) {
  std::ofstream(cache().path()) << "# tandem plan ca";
  on(
      2,
      [&](World& world) {
        const AllGatherLinear plan(world.team(), tuned_spec);
        const LinearChoice model = choose(LinearKind::all_gather_linear, tuned_spec, 2, world.device().costs());
        EXPECT_EQ(to_string(plan.choice()), to_string(model));
      },
      reading(cache().path()));
  expect_says(contents_of(at("log.0")), {"warning", cache().path(), "is ignored"});
  EXPECT_EQ(contents_of(at("log.1")), "");
}

TANDEM_ON_EACH_DEVICE(TunedChoices);

}  // namespace
}  // namespace tandem
