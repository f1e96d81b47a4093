// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/tuned_product.hpp"

#include <gtest/gtest.h>
#include <string>

#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"

#include "linear/local_gemm.hpp"
#include "linear/plan_cache_folder.hpp"
#include "linear/tensors.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"

namespace tandem {
namespace {

using testing::contents_of;
using testing::expect_says;
using testing::GuardedTensor;
using testing::Matrix;

class TunedProducts : public testing::PlanCacheFolder {};

constexpr LinearSpec spec{.m = 96, .n = 64, .k = 128, .dtype = bf16};

TEST(ProductCacheKey, IsTheSameForTheSameWork) {
  const auto device = open_device({});
  const GemmSpec product = local_gemm(spec);
  const std::string key = product_cache_key(product, 48, *device);
  expect_says(key, {"local product", "m=48 n=64 k=128", "B transposed", "bf16 into bf16", device->model()});
  GemmSpec other = product;
  other.m = 48;
  other.bias = true;
  other.activation = Activation::gelu_tanh;
  other.alpha = 2;
  EXPECT_EQ(product_cache_key(other, 48, *device), key);
  EXPECT_NE(product_cache_key(product, 96, *device), key);
  other.transpose_b = false;
  EXPECT_NE(product_cache_key(other, 48, *device), key);
  other = product;
  other.out_dtype = f32;
  EXPECT_NE(product_cache_key(other, 48, *device), key);
  other = product;
  other.tf32 = true;
  EXPECT_NE(product_cache_key(other, 48, *device), key);
}

TEST(TunedRows, AreTheWholeAndItsParts) {
  EXPECT_EQ(tuned_rows({.m = 100}), (std::vector<std::int64_t>{100, 75, 50, 38, 25, 19, 12}));
  EXPECT_EQ(tuned_rows({.m = 3}), (std::vector<std::int64_t>{3, 1}));
  EXPECT_TRUE(tuned_rows({.m = 0}).empty());
}

TEST_P(TunedProducts, AreFoundForEachM) {
  on(1, [&](World& world) {
    const GemmSpec product = local_gemm(spec);
    const auto kept = [&] { return kept_algorithms(product, world.device(), cache(), Log()); };
    EXPECT_TRUE(kept().empty());
    cache().keep(product_cache_key(product, 24, world.device()), {.algorithm = "small", .groups = 0, .seconds = 1e-6});
    cache().keep(product_cache_key(product, 96, world.device()), {.algorithm = "large", .groups = 0, .seconds = 2e-6});
    cache().keep(product_cache_key(product, 95, world.device()), {.algorithm = "other", .groups = 0, .seconds = 2e-6});
    EXPECT_EQ(kept(), (std::vector<GemmAlgorithm>{{96, "large"}, {24, "small"}}));
  });
}

/// Records, for every tuned number of rows of `product`, the algorithm that the library ranks last.
void keep_last(const PlanCache& cache, const GemmSpec& product, Device& device) {
  const auto gemm = device.gemm(product);
  for (const std::int64_t m : tuned_rows(product)) {
    const std::vector<std::string> names = gemm->algorithms(m);
    ASSERT_FALSE(names.empty());
    cache.keep(product_cache_key(product, m, device), {.algorithm = names.back(), .groups = 0, .seconds = 1e-6});
  }
}

TEST_P(TunedProducts, AreWhatPlansRun) {
  on(
      3,
      [&](World& world) {
        const Team& team = world.team();
        LinearSpec own = spec;  // n differs by rank, so the first rank must look up what the others need
        own.n = 64 - 8 * team.rank();
        for (int rank = 0; rank < 3; ++rank) {
          LinearSpec its = spec;
          its.n = 64 - 8 * rank;
          if (rank == team.rank() && world.device().has_gemm_algorithms()) {
            keep_last(cache(), local_gemm(its), world.device());
          }
          team.barrier();
        }
        AllGatherLinear plan(team, own, {.algorithm = "pipeline"});
        const bool tuned = plan.describe().find("tuned for m = 96, 72, 48, 36, 24, 18, 12,") != std::string::npos;
        EXPECT_EQ(tuned, world.device().has_gemm_algorithms()) << plan.describe();

        const auto key = [](std::uint64_t which) { return testing::key(testing::seed(), {which}); };
        const Stream stream(team.device());
        const Matrix x = Matrix::random(key(1), spec.m, spec.k, bf16);
        const Matrix weight = Matrix::random(key(2 + static_cast<std::uint64_t>(team.rank())), own.n, spec.k, bf16);
        const GuardedTensor x_on = x.part(shard_of(spec.m, team.size(), team.rank())).on(team.shared_device(), bf16);
        const GuardedTensor weight_on = weight.on(team.shared_device(), bf16);
        GuardedTensor y(team, {spec.m, own.n}, bf16);
        y.poison();
        plan(x_on.view(), weight_on.view(), y.view(), stream);
        team.synchronize(stream);
        const Matrix b = weight.transposed();
        const auto compared = testing::compare(testing::expected_product({.m = spec.m,
                                                                          .n = own.n,
                                                                          .k = spec.k,
                                                                          .a = x.values,
                                                                          .b = b.values,
                                                                          .start = {},
                                                                          .bias = {},
                                                                          .dtype = bf16}),
                                               y.get().data());
        EXPECT_EQ(compared.wrong, 0) << to_string(compared) << "\n" << plan.describe();
        const auto first = y.get();
        plan(x_on.view(), weight_on.view(), y.view(), stream);
        team.synchronize(stream);
        EXPECT_TRUE(y.get() == first) << "another run, other bits";
      },
      reading(cache().path()));
}

TEST_P(TunedProducts, ThatTheLibraryDoesNotOfferAreIgnored) {
  on(1, [&](World& world) {
    cache().keep(product_cache_key(local_gemm(spec), spec.m, world.device()),
                 {.algorithm = "algo 7 of telepathy", .groups = 0, .seconds = 1e-6});
  });
  on(
      2,
      [&](World& world) {
        const LinearReduceScatter plan(world.team(), spec);
        EXPECT_EQ(plan.describe().find("tuned for"), std::string::npos) << plan.describe();
        if (!world.device().has_gemm_algorithms()) return;
        expect_says(contents_of(at("log." + std::to_string(world.rank()))),
                    {"warning", "m=96 n=64 k=128", "is ignored", "algo 7 of telepathy"});
      },
      reading(cache().path()));
}

TANDEM_ON_EACH_DEVICE(TunedProducts);

}  // namespace
}  // namespace tandem
