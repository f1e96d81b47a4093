// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/cost_model.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/h200_costs.hpp"
#include "tandem/linear/linear_spec.hpp"

#include "support/errors.hpp"

namespace tandem {
namespace {

constexpr CostTable gpu{.gemm_flops_per_second = 700e12,
                        .gemm_f32_flops_per_second = 50e12,
                        .gemm_tf32_flops_per_second = 350e12,
                        .gemm_launch_seconds = 5e-6,
                        .hop_seconds = 5e-6,
                        .link_bytes_per_second = 380e9,
                        .link_latency_seconds = 5e-6,
                        .push_gap_seconds = 5e-6,
                        .store_bytes_per_second = 300e9,
                        .memory_bytes_per_second = 4e12,
                        .weights_bytes_per_second = 4e12,
                        .stores_hold_up_compute = 0.3,
                        .copies_cost_compute = false};

/// With tiled GEMMs, as on a GPU of 132 SMs.
CostTable in_tiles(CostTable costs) {
  costs.gemm_tile = 128;
  costs.gemm_tiles_at_once = 132;
  return costs;
}

TEST(CostModel, LargeShapesOverlapAndTinyOnesDoNot) {
  for (const LinearKind kind : {LinearKind::all_gather_linear, LinearKind::linear_reduce_scatter,
                                LinearKind::linear_all_reduce, LinearKind::linear_weight_gradient}) {
    // In a gradient's pipeline each GEMM but the first adds to the whole gradient.
    const std::int64_t m = kind == LinearKind::linear_weight_gradient ? 32768 : 8192;
    const LinearChoice large = choose(kind, {.m = m, .n = 8192, .k = 8192, .dtype = bf16}, 4, gpu);
    EXPECT_EQ(large.algorithm, "pipeline") << name(kind);
    EXPECT_LT(large.predicted.t_pipeline, large.predicted.t_sequence);
    EXPECT_GE(large.predicted.t_pipeline, large.predicted.t_ideal());
    EXPECT_EQ(choose(kind, {.m = 8, .n = 64, .k = 64, .dtype = bf16}, 4, gpu).algorithm, "sequence") << name(kind);
  }
}

TEST(CostModel, ProductsOfF32TakeTheirOwnTime) {
  LinearSpec spec{.m = 8192, .n = 8192, .k = 8192, .dtype = f32};
  const double wide = choose(LinearKind::all_gather_linear, spec, 4, gpu).predicted.t_gemm;
  spec.tf32 = true;
  const double rounded = choose(LinearKind::all_gather_linear, spec, 4, gpu).predicted.t_gemm;
  EXPECT_NEAR(wide / rounded, 350.0 / 50.0, 0.5);
  spec.tf32 = false;
  spec.dtype = f16;
  const double narrow = choose(LinearKind::all_gather_linear, spec, 4, gpu).predicted.t_gemm;
  EXPECT_NEAR(wide / narrow, 700.0 / 50.0, 0.5);
}

TEST(CostModel, WhereCopiesCostComputeThereIsNothingToHideBehind) {
  CostTable host = gpu;
  host.copies_cost_compute = true;
  const LinearChoice choice = choose(LinearKind::all_gather_linear, {.m = 8192, .n = 8192, .k = 8192}, 4, host);
  EXPECT_EQ(choice.algorithm, "sequence");
  EXPECT_NE(choice.why.find("nothing to hide behind"), std::string::npos);
}

TEST(CostModel, GroupsOfAGatherThatEndWithinShardsCostMore) {
  // The link is so fast that only GEMMs matter.
  CostTable near = gpu;
  near.link_bytes_per_second = 1e15;
  near.link_latency_seconds = 0;
  near.push_gap_seconds = 0;
  const LinearSpec spec{.m = 8192, .n = 8192, .k = 8192, .dtype = bf16};
  const auto launches = [&](int groups) {  // how many times the fixed cost of a GEMM is charged
    CostTable slower = near;
    slower.gemm_launch_seconds += 1e-6;
    const auto predicted = [&](const CostTable& costs) {
      return choose(LinearKind::all_gather_linear, spec, 4, costs, {.groups = groups}).predicted.t_pipeline;
    };
    return std::lround((predicted(slower) - predicted(near)) / 1e-6);
  };
  EXPECT_EQ(launches(1), 1 + 2);  // own shard's GEMM; on the two middle ranks the others' shards lie on both sides
  EXPECT_EQ(launches(2), 1 + 3);
  EXPECT_EQ(launches(3), 1 + 3);
  EXPECT_EQ(launches(4), 1 + 6);  // groups of 3/4; 1/4 and 1/2; 1/2 and 1/4; 3/4
  EXPECT_EQ(launches(6), 1 + 6);
  EXPECT_EQ(launches(12), 1 + 12);
}

TEST(CostModel, RanksThatShareCoresHaveLessOfThem) {
  const LinkOptions link{.latency = std::chrono::microseconds(20), .bytes_per_second = 0.2e9};
  const LinearSpec spec{.m = 3072, .n = 1024, .k = 1024};
  const auto predicted = [&](int ranks) {
    const auto device = open_device({DeviceType::host, 0}, {.link = link, .gemm_threads = 1, .ranks = ranks});
    return choose(LinearKind::linear_reduce_scatter, spec, 4, device->costs());
  };
  const LinearChoice alone = predicted(1);
  const LinearChoice crowded = predicted(1000 * static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_NEAR(crowded.predicted.t_gemm / alone.predicted.t_gemm, 1000, 1);
  EXPECT_LE(crowded.groups, alone.groups) << "a product that takes longer than the wire needs no fine groups";
}

TEST(CostModel, ThreadsThatShareProductsMultiplyFaster) {
  const LinearSpec spec{.m = 3072, .n = 1024, .k = 1024};
  const auto predicted = [&](int threads) {
    const auto device = open_device({}, {.gemm_threads = threads});
    return choose(LinearKind::linear_reduce_scatter, spec, 4, device->costs()).predicted.t_gemm;
  };
  EXPECT_LT(predicted(2), 0.8 * predicted(1));
  EXPECT_LT(predicted(8), 0.3 * predicted(1));
  EXPECT_GT(predicted(8), predicted(1) / 8);
}

TEST(CostModel, EachGroupReadsTheWeightsAnew) {
  const LinearSpec spec{.m = 8192, .n = 8192, .k = 8192, .dtype = bf16};
  CostTable slow_link = gpu;
  slow_link.link_bytes_per_second /= 8;
  slow_link.store_bytes_per_second /= 8;
  CostTable slow_memory = slow_link;
  slow_memory.weights_bytes_per_second /= 50;
  CostTable cached = slow_memory;
  cached.cache_bytes = 1e12;
  for (const CostTable& finer : {slow_link, cached}) {
    EXPECT_LT(choose(LinearKind::linear_reduce_scatter, spec, 4, slow_memory).groups,
              choose(LinearKind::linear_reduce_scatter, spec, 4, finer).groups);
  }
}

TEST(CostModel, PiecesOfFewRowsShareWeightsThatArePackedOnce) {
  LinearSpec spec{.m = 4096, .n = 8192, .k = 8192, .dtype = f32};
  CostTable anew = gpu;
  anew.weights_bytes_per_second /= 50;
  CostTable packs = anew;
  packs.packed_rows = 512;
  packs.packing_bytes_per_second = 1e12;
  const double weights = 8192.0 * 8192 * 4;
  // The time that packing saves in a pipeline.
  const auto saved = [&](LinearKind kind, int groups) {
    const auto predicted = [&](const CostTable& costs) {
      return choose(kind, spec, 4, costs, {.groups = groups}).predicted.t_pipeline;
    };
    return predicted(anew) - predicted(packs);
  };
  const double reading = weights / anew.weights_bytes_per_second;
  const double packing = weights / packs.packing_bytes_per_second;
  EXPECT_DOUBLE_EQ(saved(LinearKind::all_gather_linear, 3), 0) << "shards of 1024 rows, in whole";
  EXPECT_NEAR(saved(LinearKind::all_gather_linear, 12), 12 * reading - packing, 1e-6) << "the own shard's is no piece";
  spec.m = 2048;
  EXPECT_NEAR(saved(LinearKind::all_gather_linear, 3), 4 * reading - packing, 1e-6);
  EXPECT_EQ(saved(LinearKind::linear_weight_gradient, 3), 0) << "whose products have all of the weights each";
  spec.dtype = bf16;
  EXPECT_EQ(saved(LinearKind::all_gather_linear, 3), 0);
}

TEST(CostModel, WhereProductsReadWeightsBesideTheirMultiplicationsThoseCostOnlyWhatTheyTakeLonger) {
  CostTable beside = gpu;
  beside.weights_hold_up_compute = false;
  CostTable cached = gpu;
  cached.cache_bytes = 1e12;
  const auto product = [](std::int64_t m, const CostTable& costs) {
    const LinearSpec spec{.m = m, .n = 24576, .k = 12288, .dtype = bf16};
    return choose(LinearKind::all_gather_linear, spec, 2, costs).predicted.t_gemm;
  };
  EXPECT_DOUBLE_EQ(product(4096, beside), product(4096, cached));
  EXPECT_GT(product(4096, gpu), product(4096, beside));
  const double weights = 24576.0 * 12288 * 2 / gpu.weights_bytes_per_second;
  EXPECT_DOUBLE_EQ(product(64, beside), gpu.gemm_launch_seconds + weights) << "few tokens wait for the weights";
}

TEST(CostModel, AddingToALargeGradientCostsMoreThanTheGatherThatItHides) {
  CostTable hides = gpu;
  hides.weights_hold_up_compute = false;
  hides.cache_bytes = 50e6;
  const auto chosen = [&](std::int64_t n) {
    return choose(LinearKind::linear_weight_gradient, {.m = 8192, .n = n, .k = 8192, .dtype = bf16}, 2, hides);
  };
  EXPECT_EQ(chosen(28672).algorithm, "sequence");
  EXPECT_EQ(chosen(5120).algorithm, "pipeline");
  EXPECT_EQ(chosen(5120).groups, 1);
}

TEST(CostModel, AGradientOf16BitsTakesAPipelineAPassMore) {
  LinearSpec spec{.m = 8192, .n = 8192, .k = 8192, .dtype = bf16};
  const auto predicted = [&](const CostTable& costs) {
    return choose(LinearKind::linear_weight_gradient, spec, 2, costs, {.groups = 1}).predicted;
  };
  CostTable hides = gpu;
  hides.weights_hold_up_compute = false;
  CostTable host = gpu;
  host.copies_cost_compute = true;
  for (const CostTable& costs : {hides, host}) {
    spec.gradient_dtype = f32;
    const LinearPrediction wide = predicted(costs);
    spec.gradient_dtype = bf16;
    const LinearPrediction narrow = predicted(costs);
    const double cast = 6 * 8192.0 * 8192 / costs.memory_bytes_per_second;
    const double pass = costs.gemm_launch_seconds + cast;
    EXPECT_NEAR(narrow.t_pipeline - wide.t_pipeline, pass, 1e-9);
    // On the host a single GEMM needs the rounding pass, too.
    EXPECT_NEAR(narrow.t_sequence - wide.t_sequence, costs.weights_hold_up_compute ? cast : 0, 1e-9);
    spec.beta = 1;
    EXPECT_NEAR(predicted(costs).t_pipeline - narrow.t_pipeline, pass, 1e-9) << "what is added to is widened";
    EXPECT_NEAR(predicted(costs).t_sequence, narrow.t_sequence, 1e-9);
    spec.beta = 0;
  }
}

TEST(CostModel, AGradientOf16BitsIsHalfToWriteForAProductThatWaitsForIt) {
  CostTable hides = gpu;
  hides.weights_hold_up_compute = false;
  LinearSpec few{.m = 64, .n = 28672, .k = 8192, .dtype = bf16};
  const auto product = [&](DType gradient) {
    few.gradient_dtype = gradient;
    return choose(LinearKind::linear_weight_gradient, few, 2, hides).predicted.t_gemm - hides.gemm_launch_seconds;
  };
  EXPECT_DOUBLE_EQ(product(f32), 8 * 28672.0 * 8192 / hides.weights_bytes_per_second);
  EXPECT_DOUBLE_EQ(product(bf16), product(f32) / 2);
}

TEST(CostModel, AProductTakesWavesOfTheTilesThatRunAtOnce) {
  CostTable tiled = in_tiles(gpu);
  tiled.cache_bytes = 1e12;
  const auto product = [](std::int64_t m, std::int64_t n, const CostTable& costs) {
    const LinearSpec spec{.m = m, .n = n, .k = 8192, .dtype = bf16};
    return choose(LinearKind::all_gather_linear, spec, 2, costs).predicted.t_gemm;
  };
  CostTable whole = tiled;
  whole.gemm_tile = 0;
  EXPECT_DOUBLE_EQ(product(1, 1, tiled), product(128, 128, tiled)) << "a tile";
  EXPECT_DOUBLE_EQ(product(6 * 128, 128, tiled), product((6 + 21) * 128, 128, whole)) << "and a sixth of the 126 idle";
  EXPECT_DOUBLE_EQ(product(12 * 128, 11 * 128, tiled), product(12 * 128, 11 * 128, whole));
  EXPECT_DOUBLE_EQ(product(24 * 128, 11 * 128, tiled), product(24 * 128, 11 * 128, whole));
  EXPECT_DOUBLE_EQ(product(16, 132 * 128, tiled), product(128, 132 * 128, whole)) << "few rows take a tile's";
  // 144 tiles are two waves; a sixth of the 120 idle tiles of the second wave counts.
  EXPECT_DOUBLE_EQ(product(12 * 128, 12 * 128, tiled), product((144 + 20) * 128, 128, whole));
}

TEST(CostModel, OverlapIsTakenWhereItGainsEnough) {
  const LinearSpec spec{.m = 8192, .n = 8192, .k = 8192, .dtype = bf16};
  const LinearPrediction predicted = choose(LinearKind::linear_reduce_scatter, spec, 4, gpu).predicted;
  const double gain = 1 - std::min(predicted.t_pipeline, predicted.t_direct) / predicted.t_sequence;
  CostTable careful = gpu;
  careful.overlap_must_gain = gain + 0.001;
  EXPECT_EQ(choose(LinearKind::linear_reduce_scatter, spec, 4, careful).algorithm, "sequence");
  careful.overlap_must_gain = gain - 0.001;
  EXPECT_EQ(choose(LinearKind::linear_reduce_scatter, spec, 4, careful).algorithm, "pipeline");
}

TEST(CostModel, FinerGroupsAreTakenAsFarAsTheyMayCost) {
  const LinearSpec spec{.m = 8192, .n = 8192, .k = 28672 / 4, .dtype = bf16};
  const auto chosen = [&](double may_cost) {
    CostTable costs = gpu;
    costs.cache_bytes = 1e12;
    costs.finer_groups_may_cost = may_cost;
    return choose(LinearKind::linear_reduce_scatter, spec, 4, costs);
  };
  const LinearChoice best = chosen(0);
  const LinearChoice finer = chosen(0.05);
  EXPECT_GT(finer.groups, best.groups);
  EXPECT_LE(finer.predicted.t_pipeline, 1.05 * best.predicted.t_pipeline);
}

TEST(CostModel, GroupsAreFineWhereThatCostsNothing) {
  CostTable free = gpu;
  free.gemm_launch_seconds = 0;
  free.hop_seconds = 0;
  free.store_bytes_per_second = 1;
  free.cache_bytes = 1e12;
  const LinearSpec spec{.m = 8192, .n = 8192, .k = 8192, .dtype = bf16};
  for (const LinearKind kind : {LinearKind::linear_reduce_scatter, LinearKind::all_gather_linear}) {
    EXPECT_EQ(choose(kind, spec, 4, free).groups, most_groups(kind, spec, 4)) << name(kind);
  }
}

TEST(CostModel, ASlowLinkMakesReductionsLeaveInFinerGroups) {
  CostTable slow = gpu;
  slow.link_bytes_per_second /= 8;
  slow.store_bytes_per_second = 1;
  const LinearSpec spec{.m = 8192, .n = 8192, .k = 8192, .dtype = bf16};
  for (const LinearKind kind : {LinearKind::linear_reduce_scatter, LinearKind::linear_all_reduce}) {
    const LinearOptions pipeline{.algorithm = "pipeline"};
    const LinearChoice fine = choose(kind, spec, 4, slow, pipeline);
    EXPECT_GT(fine.groups, choose(kind, spec, 4, gpu, pipeline).groups) << name(kind);
    EXPECT_LE(fine.groups, most_groups(kind, spec, 4)) << name(kind);
    EXPECT_LT(fine.predicted.t_pipeline, choose(kind, spec, 4, slow, {.groups = 1}).predicted.t_pipeline);
  }
}

TEST(CostModel, RoundsAreAddedUpOneByOneWhereProductsTakeLongerThanTheLink) {
  CostTable copied = gpu;
  copied.store_bytes_per_second = 1;  // makes "direct" too slow
  CostTable slow = copied;
  slow.link_bytes_per_second /= 8;
  const LinearSpec spec{.m = 8192, .n = 8192, .k = 2048, .dtype = bf16};
  const auto chosen = [&](const CostTable& costs, const LinearOptions& options = {}) {
    return choose(LinearKind::linear_all_reduce, spec, 4, costs, options);
  };
  const LinearChoice steps = chosen(copied);
  EXPECT_EQ(steps.algorithm, "stepwise");
  EXPECT_GT(steps.groups, 1);
  EXPECT_LT(steps.predicted.t_stepwise, steps.predicted.t_pipeline);
  EXPECT_NE(to_string(steps).find("stepwise in"), std::string::npos) << to_string(steps);
  // Alternatives are predicted even if the algorithm is fixed, since plans fix what the first rank chose.
  const LinearPrediction again = chosen(copied, {.algorithm = steps.algorithm, .groups = steps.groups}).predicted;
  EXPECT_EQ(again.t_stepwise, steps.predicted.t_stepwise);
  EXPECT_EQ(again.t_pipeline, steps.predicted.t_pipeline);
  EXPECT_EQ(again.t_growing, steps.predicted.t_growing);
  EXPECT_EQ(again.t_shrinking, steps.predicted.t_shrinking);
  EXPECT_EQ(chosen(copied, {.groups = 2}).algorithm, "stepwise");
  EXPECT_EQ(chosen(slow).algorithm, "pipeline");
  EXPECT_GT(chosen(slow).predicted.t_stepwise, chosen(slow).predicted.t_pipeline);
  EXPECT_EQ(chosen(slow, {.groups = 2}).algorithm, "pipeline");
  EXPECT_EQ(chosen(slow, {.algorithm = "stepwise", .groups = 2}).algorithm, "stepwise");
  // In a single round they are the same.
  const LinearPrediction whole = chosen(gpu, {.groups = 1}).predicted;
  EXPECT_NEAR(whole.t_stepwise, whole.t_pipeline, 2 * gpu.link_latency_seconds);
  EXPECT_EQ(choose(LinearKind::linear_reduce_scatter, spec, 4, gpu).predicted.t_stepwise, 0);
}

TEST(CostModel, RoundsGrowForALinkThatTakesLongerAndShrinkForProductsThatDo) {
  CostTable copied = gpu;
  copied.store_bytes_per_second = 1;  // makes "direct" too slow
  copied.takes_beside_pushes_cost = 0.4;
  copied.slowest_rank = 1;
  copied.cache_bytes = 1e12;
  const auto chosen = [&](std::int64_t k, const LinearOptions& options = {.groups = 2}) {
    return choose(LinearKind::linear_all_reduce, {.m = 8192, .n = 8192, .k = k, .dtype = bf16}, 4, copied, options);
  };
  const LinearPrediction links = chosen(2048).predicted;
  EXPECT_LT(links.t_growing, links.t_stepwise);
  EXPECT_LT(links.t_stepwise, links.t_shrinking);
  const LinearPrediction products = chosen(7168).predicted;
  EXPECT_LT(products.t_shrinking, products.t_stepwise);
  EXPECT_LT(products.t_stepwise, products.t_growing);
  EXPECT_EQ(chosen(2048).algorithm, "growing");
  EXPECT_EQ(chosen(7168).algorithm, "shrinking");
  EXPECT_NE(to_string(chosen(7168)).find("shrinking in 2 groups"), std::string::npos) << to_string(chosen(7168));
  EXPECT_EQ(chosen(2048, {.algorithm = "shrinking", .groups = 3}).groups, 3);
  // In a single round they are the same.
  const LinearPrediction whole = chosen(2048, {.groups = 1}).predicted;
  EXPECT_DOUBLE_EQ(whole.t_growing, whole.t_stepwise);
  EXPECT_DOUBLE_EQ(whole.t_shrinking, whole.t_stepwise);
}

TEST(CostModel, WhatIsTakenWhilePushesCrossCostsALinkThatBothSlow) {
  CostTable shared = gpu;
  shared.takes_beside_pushes_cost = 0.4;
  const LinearSpec spec{.m = 8192, .n = 8192, .k = 2048, .dtype = bf16};
  const auto lost = [&](int groups) {
    const auto predicted = [&](const CostTable& costs) {
      return choose(LinearKind::linear_all_reduce, spec, 4, costs, {.groups = groups}).predicted.t_pipeline;
    };
    return predicted(shared) - predicted(gpu);
  };
  EXPECT_EQ(lost(1), 0) << "all have been pushed before anything is taken";
  for (const int groups : {2, 4}) EXPECT_GT(lost(groups), 0) << groups;
}

TEST(CostModel, RoundsHalveTheRowsWhereProductsAreMadeInTiles) {
  CostTable tiled = in_tiles(gpu);
  tiled.store_bytes_per_second = gpu.store_bytes_per_second / 20;  // makes "direct" too slow
  std::vector<int> seen;
  for (std::int64_t k = 2048; k <= 65536; k += 2048) {
    const int groups =
        choose(LinearKind::linear_all_reduce, {.m = 8192, .n = 8192, .k = k, .dtype = bf16, .beta = 1}, 2, tiled)
            .groups;
    EXPECT_TRUE(groups == 0 || std::has_single_bit(static_cast<unsigned>(groups))) << groups << " of k = " << k;
    seen.push_back(groups);
  }
  EXPECT_GT(std::ranges::max(seen), 1) << "nothing ran in rounds";
}

TEST(CostModel, ReductionsCutShardsAlikeWhereProductsAreMadeInTiles) {
  CostTable tiled = in_tiles(gpu);
  tiled.cache_bytes = 1e12;
  tiled.store_bytes_per_second = 1;
  std::vector<int> seen;
  for (std::int64_t m = 4096; m <= 65536; m += 4096) {
    const LinearSpec spec{.m = m, .n = 8192, .k = 2048, .dtype = bf16};
    const int groups = choose(LinearKind::linear_reduce_scatter, spec, 4, tiled, {.algorithm = "pipeline"}).groups;
    EXPECT_TRUE(groups == 1 || groups % 3 == 0) << groups << " of m = " << m;
    seen.push_back(groups);
  }
  EXPECT_GT(std::ranges::max(seen), 1) << "nothing was cut";
}

TEST(CostModel, BetweenTwoRanksNothingIsLeftToAddUp) {
  CostTable slow_memory = gpu;
  slow_memory.memory_bytes_per_second /= 4;
  slow_memory.store_bytes_per_second = 1;
  for (const LinearKind kind : {LinearKind::linear_reduce_scatter, LinearKind::linear_all_reduce}) {
    LinearSpec spec{.m = 8192, .n = 8192, .k = 4096, .dtype = bf16};
    const LinearPrediction added = choose(kind, spec, 2, slow_memory).predicted;
    EXPECT_DOUBLE_EQ(choose(kind, spec, 2, gpu).predicted.t_pipeline, added.t_pipeline) << name(kind);
    if (kind == LinearKind::linear_all_reduce) {
      // Stepwise, each GEMM for the own rows would wait for the peer's rows of its round.
      const double crossing = added.t_comm / 4;
      EXPECT_GT(choose(kind, spec, 2, slow_memory, {.groups = 2}).predicted.t_stepwise, added.t_pipeline + crossing);
    }
    spec.beta = 1;  // now the GEMM adds to y instead
    EXPECT_LT(added.t_pipeline, choose(kind, spec, 2, slow_memory).predicted.t_pipeline) << name(kind);
    EXPECT_GT(added.t_pipeline, added.t_gemm) << name(kind);
  }
}

TEST(CostModel, ProductsGoStraightToPeersWhereStoresKeepUp) {
  const LinearSpec spec{.m = 8192, .n = 8192, .k = 8192, .dtype = bf16};
  CostTable far = gpu;
  far.store_bytes_per_second = gpu.link_bytes_per_second / 20;
  CostTable near = gpu;
  near.link_bytes_per_second /= 8;
  for (const LinearKind kind : {LinearKind::linear_reduce_scatter, LinearKind::linear_all_reduce}) {
    EXPECT_EQ(choose(kind, spec, 4, far).algorithm, "pipeline") << name(kind);
    const LinearChoice direct = choose(kind, spec, 4, near);
    EXPECT_EQ(direct.algorithm, "direct") << name(kind);
    EXPECT_EQ(direct.groups, 0) << name(kind);
    EXPECT_LT(direct.predicted.t_direct, direct.predicted.t_pipeline) << name(kind);
    EXPECT_NE(to_string(direct).find("direct"), std::string::npos) << to_string(direct);
    EXPECT_EQ(choose(kind, spec, 1, near).algorithm, "sequence") << name(kind);
    // If copies keep up as well, they win over GEMMs that are held up by their stores.
    EXPECT_GT(choose(kind, {.m = 8192, .n = 10240, .k = 4096, .dtype = bf16}, 2, gpu).groups, 0);
  }
  EXPECT_EQ(choose(LinearKind::all_gather_linear, spec, 4, near).predicted.t_direct, 0);
  EXPECT_THROW(static_cast<void>(choose(LinearKind::all_gather_linear, spec, 4, near, {.algorithm = "direct"})),
               InvalidArgument);
  EXPECT_THROW(
      static_cast<void>(choose(LinearKind::linear_all_reduce, spec, 4, near, {.algorithm = "direct", .groups = 2})),
      InvalidArgument);
}

TEST(CostModel, OnlyAGatherKeepsWhatItGathers) {
  const LinearSpec spec{.m = 64, .n = 64, .k = 64};
  const LinearOptions keeps{.keep_gathered = true};
  EXPECT_NO_THROW(static_cast<void>(choose(LinearKind::all_gather_linear, spec, 2, gpu, keeps)));
  for (const LinearKind kind :
       {LinearKind::linear_reduce_scatter, LinearKind::linear_all_reduce, LinearKind::linear_weight_gradient}) {
    EXPECT_THROW(static_cast<void>(choose(kind, spec, 2, gpu, keeps)), InvalidArgument) << name(kind);
  }
}

TEST(CostModel, TheLatencyCountsForEachCopyThatWaitsForTheOneBefore) {
  CostTable far = gpu;
  far.link_latency_seconds = 1;  // everything else takes microseconds
  far.push_gap_seconds = 1;
  const LinearSpec spec{.m = 8192, .n = 64, .k = 8192, .dtype = bf16};
  const auto latencies = [&](LinearKind kind, int groups) {
    return choose(kind, spec, 4, far, {.groups = groups}).predicted.t_pipeline;
  };
  EXPECT_NEAR(latencies(LinearKind::all_gather_linear, 1), 1, 0.1) << "three shards in one batch";
  EXPECT_NEAR(latencies(LinearKind::all_gather_linear, 2), 3, 0.1) << "each by itself";
  EXPECT_NEAR(latencies(LinearKind::all_gather_linear, 12), 12, 0.1) << "each in four parts";
  EXPECT_NEAR(latencies(LinearKind::linear_reduce_scatter, 1), 3, 0.1) << "one after the other";
  EXPECT_NEAR(latencies(LinearKind::linear_reduce_scatter, 6), 6, 0.1);
  far.push_gap_seconds = 0;  // a link on which several copies can be in flight
  for (const int groups : {1, 2, 12}) EXPECT_NEAR(latencies(LinearKind::all_gather_linear, groups), 1, 0.1) << groups;
  EXPECT_NEAR(latencies(LinearKind::linear_reduce_scatter, 6), 6, 0.1) << "each leaves when it has been computed";
}

TEST(CostModel, SaysWhatDeviceItsCostsAreOf) {
  const auto text = [](const CostTable& costs) {
    return to_string(choose(LinearKind::all_gather_linear, {.m = 8192, .n = 2048, .k = 8192, .dtype = bf16}, 4, costs));
  };
  CostTable costs = h200_costs();
  EXPECT_EQ(text(costs).find("not of this device"), std::string::npos) << text(costs);
  costs.of_another = "Hopper GPUs over NVLink";
  EXPECT_NE(text(costs).find("predicted by the costs of Hopper GPUs over NVLink, not of this device: t_gemm"),
            std::string::npos)
      << text(costs);
}

// The times are on the pages of docs/performance/gpu_notes (the last case's on H100): each choice is the fastest that
// was measured, or within two percent of it.
TEST(CostModel, OverNvlinkTheWaysAreTakenThatWereMeasuredToBeFast) {
  constexpr LinearKind gather = LinearKind::all_gather_linear;
  constexpr LinearKind scatter = LinearKind::linear_reduce_scatter;
  constexpr LinearKind reduce = LinearKind::linear_all_reduce;
  struct Case {
    int ranks;
    LinearKind kind;
    std::int64_t m, n, k;  // per rank
    std::string_view algorithm;
    int groups;
  };
  constexpr std::array cases{
      Case{2, gather, 1024, 14336, 8192, "sequence", 0},   Case{2, gather, 2048, 14336, 8192, "pipeline", 1},
      Case{2, gather, 1024, 4096, 8192, "pipeline", 1},    Case{2, gather, 2048, 5120, 8192, "pipeline", 1},
      Case{2, scatter, 512, 8192, 14336, "sequence", 0},   Case{2, scatter, 1024, 8192, 14336, "pipeline", 1},
      Case{2, scatter, 1024, 8192, 4096, "pipeline", 1},   Case{2, reduce, 512, 8192, 14336, "sequence", 0},
      Case{2, reduce, 1024, 8192, 14336, "sequence", 0},   Case{2, reduce, 2048, 8192, 14336, "pipeline", 2},
      Case{2, reduce, 1024, 8192, 4096, "sequence", 0},    Case{2, reduce, 2048, 8192, 4096, "pipeline", 2},
      Case{4, gather, 8192, 2560, 8192, "pipeline", 3},    Case{4, scatter, 8192, 8192, 2048, "pipeline", 3},
      Case{4, scatter, 512, 8192, 7168, "sequence", 0},    Case{4, scatter, 1024, 8192, 7168, "pipeline", 3},
      Case{4, scatter, 1536, 8192, 7168, "pipeline", 3},   Case{4, scatter, 2048, 4096, 3584, "pipeline", 3},
      Case{4, scatter, 2048, 8192, 2048, "pipeline", 3},   Case{4, scatter, 4096, 12288, 12288, "pipeline", 1},
      Case{4, scatter, 8192, 8192, 14336, "pipeline", 1},  Case{4, reduce, 1024, 8192, 7168, "sequence", 0},
      Case{4, reduce, 4096, 12288, 12288, "shrinking", 2},
  };
  for (const Case& each : cases) {
    const LinearSpec spec{.m = each.m, .n = each.n, .k = each.k, .dtype = bf16};
    const LinearChoice choice = choose(each.kind, spec, each.ranks, h200_costs());
    EXPECT_EQ(choice.algorithm, each.algorithm) << to_string(spec) << " of " << each.ranks << '\n' << to_string(choice);
    EXPECT_EQ(choice.groups, each.groups) << to_string(spec) << " of " << each.ranks << '\n' << to_string(choice);
  }
}

TEST(CostModel, GroupsAndRoundsTakeHops) {
  CostTable hopping = gpu;
  hopping.hop_seconds = 1;  // everything else takes microseconds
  const LinearSpec spec{.m = 8192, .n = 64, .k = 8192, .dtype = bf16};
  const auto hops = [&](LinearKind kind, int groups) {
    return choose(kind, spec, 4, hopping, {.groups = groups}).predicted.t_pipeline;
  };
  EXPECT_NEAR(hops(LinearKind::all_gather_linear, 3), 3 + 2, 0.1) << "one for each group, the fork and the join";
  EXPECT_NEAR(hops(LinearKind::linear_reduce_scatter, 1), 3, 0.1) << "the fork, the signal and the join";
  EXPECT_NEAR(hops(LinearKind::linear_reduce_scatter, 6), 6 + 1, 0.1) << "a signal for each group, and the join";
  EXPECT_NEAR(hops(LinearKind::linear_all_reduce, 3), 2 * 3 + 2, 0.1) << "its products, and its sums";
}

TEST(CostModel, WhatASequenceSumsIsLoadedFromPeers) {
  CostTable slow = gpu;
  slow.kernels_reach_peers = true;
  slow.load_bytes_per_second = gpu.link_bytes_per_second / 3;
  CostTable fast = slow;
  fast.load_bytes_per_second = gpu.link_bytes_per_second;
  const LinearSpec spec{.m = 8192, .n = 8192, .k = 8192, .dtype = bf16};
  const double wire = 3 * 2048 * 8192 * 2 / gpu.link_bytes_per_second;
  for (const LinearKind kind : {LinearKind::linear_reduce_scatter, LinearKind::linear_all_reduce}) {
    EXPECT_NEAR(choose(kind, spec, 4, slow).predicted.t_comm - choose(kind, spec, 4, fast).predicted.t_comm, 2 * wire,
                1e-9)
        << name(kind) << ": an all-reduce's sums cross as a gather's shards do";
  }
  EXPECT_EQ(choose(LinearKind::all_gather_linear, spec, 4, slow).predicted.t_comm,
            choose(LinearKind::all_gather_linear, spec, 4, fast).predicted.t_comm);
}

TEST(CostModel, AnUnknownKindHasANameOfItsOwn) {
  EXPECT_EQ(name(static_cast<LinearKind>(9)), "?");
  EXPECT_EQ(name(LinearKind::linear_weight_gradient), "LinearWeightGradient");
}

TEST(CostModel, OptionsOverrideAndImpossibleOnesListWhatIsPossible) {
  const LinearSpec spec{.m = 8, .n = 64, .k = 64};
  EXPECT_EQ(choose(LinearKind::all_gather_linear, spec, 4, gpu, {.algorithm = "pipeline", .groups = 3}).groups, 3);
  for (const LinearKind kind : {LinearKind::all_gather_linear, LinearKind::linear_reduce_scatter}) {
    EXPECT_EQ(choose(kind, spec, 4, gpu, {.groups = 12}).groups, 12) << name(kind);
    EXPECT_THROW(static_cast<void>(choose(kind, spec, 4, gpu, {.groups = 13})), InvalidArgument) << name(kind);
  }
  // A single peer's shard may be cut into more groups than each of three peers' shards.
  EXPECT_EQ(choose(LinearKind::all_gather_linear, spec, 2, gpu, {.groups = 8}).groups, 8);
  EXPECT_THROW(static_cast<void>(choose(LinearKind::all_gather_linear, spec, 2, gpu, {.groups = 9})), InvalidArgument);
  // A transposed x arrives in blocks, one per shard.
  LinearSpec blocks = spec;
  blocks.x_layout = Layout::transposed;
  EXPECT_THROW(static_cast<void>(choose(LinearKind::all_gather_linear, blocks, 4, gpu, {.groups = 4})),
               InvalidArgument);
  EXPECT_THROW(
      static_cast<void>(choose(LinearKind::all_gather_linear, spec, 4, gpu, {.algorithm = "sequence", .groups = 2})),
      InvalidArgument);
  EXPECT_EQ(choose(LinearKind::all_gather_linear, spec, 4, gpu, {.sms = 0}).sms, 0);
  EXPECT_THROW(static_cast<void>(choose(LinearKind::all_gather_linear, spec, 4, gpu, {.sms = -1})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(choose(LinearKind::linear_reduce_scatter, spec, 4, gpu, {.sms = 0})), InvalidArgument);
  try {
    static_cast<void>(choose(LinearKind::linear_all_reduce, spec, 4, gpu, {.algorithm = "ring"}));
    ADD_FAILURE() << "algorithm ring was taken";
  } catch (const InvalidArgument& error) {
    for (const char* part : {"LinearAllReduce", "ring", "auto", "pipeline", "sequence"}) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST(CostModel, SizesAndTeamsThatNoPlanHasAreRefused) {
  const LinearKind kind = LinearKind::linear_reduce_scatter;
  for (const int ranks : {0, -2}) {
    testing::expect_error<InvalidArgument>(
        [&] { static_cast<void>(choose(kind, {.m = 8, .n = 8, .k = 8}, ranks, CostTable{})); },
        {"LinearReduceScatter", "a team of " + std::to_string(ranks), "1 and more"});
  }
  for (const LinearSpec& spec : {LinearSpec{.m = -1}, LinearSpec{.n = -1}, LinearSpec{.k = -1}}) {
    testing::expect_error<InvalidArgument>([&] { static_cast<void>(choose(kind, spec, 2, CostTable{})); },
                                           {to_string(spec), "none may be negative"});
  }
}

}  // namespace
}  // namespace tandem
