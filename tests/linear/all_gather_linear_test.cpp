// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/all_gather_linear.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <vector>

#include "tandem/base/error.hpp"

#include "linear/tensors.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"

namespace tandem {
namespace {

using testing::GuardedTensor;
using testing::Matrix;

/// Several runs of one plan with fresh data, poisoned outputs and late ranks; compares each element with fp64.
void check(World& world, const Team& team, const LinearSpec& spec, const LinearOptions& options, int runs = 3,
           std::int64_t offset = 0) {
  const auto& device = world.shared_device();
  AllGatherLinear plan(team, spec, options);
  const Stream stream(*device);
  for (int run = 0; run < runs; ++run) {
    const std::int64_t m = run == 1 ? spec.m / 2 : spec.m;  // a plan also runs with fewer tokens
    const auto key = [&](std::uint64_t which) {
      return testing::key(testing::seed(), {which, static_cast<std::uint64_t>(run)});
    };
    const auto own = static_cast<std::uint64_t>(team.rank());
    const Matrix x = Matrix::random(key(1), m, spec.k, spec.dtype);
    const DType out = spec.dtype_of_y();
    const Matrix weight = Matrix::random(key(100 + own), spec.n, spec.k, spec.dtype_of_weight());
    const Matrix bias = Matrix::random(key(200 + own), 1, spec.bias ? spec.n : 0, out);
    const Matrix start = Matrix::random(key(300 + own), m, spec.n, out);
    const Matrix x_scales = testing::random_scales(key(600), spec.scaling, m);
    const Matrix weight_scales = testing::random_scales(key(700 + own), spec.scaling, spec.n);

    const Shard own_rows = shard_of(m, team.size(), team.rank());
    const Matrix shard = x.part(own_rows);
    const GuardedTensor x_on = shard.on(device, spec.dtype, spec.x_layout, offset);
    const GuardedTensor weight_on = weight.on(device, spec.dtype_of_weight(), spec.weight_layout, offset);
    const GuardedTensor bias_on(device, {bias.columns}, out, bias.values, offset);
    const bool per_row = spec.scaling == Scaling::per_row;
    const Matrix own_scales = per_row ? x_scales.transposed().part(own_rows).transposed() : x_scales;
    const GuardedTensor x_scale_on = testing::scales_on(device, own_scales, offset);
    const GuardedTensor weight_scale_on = testing::scales_on(device, weight_scales, offset);
    GuardedTensor y = start.on(device, out, Layout::normal, offset);
    if (spec.beta == 0.0F) y.poison();

    // The activation's input, kept by an earlier run; or the place where this run keeps it.
    const bool gradient = spec.auxiliary == Auxiliary::gradient;
    const Matrix before = Matrix::random(key(500 + own), m, spec.n, out);
    GuardedTensor aux = before.on(device, out, Layout::normal, offset);
    if (!gradient) aux.poison();

    testing::maybe_delay(stream, testing::random_bits(key(400 + own), 0));
    if (spec.scaling != Scaling::none) {
      plan({.x = x_on.view(),
            .weight = weight_on.view(),
            .bias = testing::view_if(spec.bias, bias_on),
            .aux = testing::view_if(spec.auxiliary != Auxiliary::none, aux),
            .x_scale = x_scale_on.view(),
            .weight_scale = weight_scale_on.view(),
            .y = y.view()},
           stream);
    } else if (spec.auxiliary != Auxiliary::none) {
      plan(x_on.view(), weight_on.view(), spec.bias ? bias_on.view() : TensorView(), aux.view(), y.view(), stream);
    } else if (spec.bias) {
      plan(x_on.view(), weight_on.view(), bias_on.view(), y.view(), stream);
    } else {
      plan(x_on.view(), weight_on.view(), y.view(), stream);
    }
    for (const GuardedTensor* operand : {&x_on, &weight_on, &bias_on, &x_scale_on, &weight_scale_on}) {
      operand->poison(stream);
    }
    team.synchronize(stream);

    const Matrix a = scaled(x, x_scales);
    const Matrix b = scaled(weight, weight_scales).transposed();
    testing::Product product{.m = m,
                             .n = spec.n,
                             .k = spec.k,
                             .a = a.values,
                             .b = b.values,
                             .start = spec.beta == 0.0F ? std::span<const double>() : start.values,
                             .bias = bias.values,
                             .alpha = spec.alpha,
                             .beta = spec.beta,
                             .activation = spec.activation,
                             .dtype = out,
                             .summed_within = testing::summed_within(spec, *device),
                             .rounds_between = team.device().id().type == DeviceType::cuda};
    if (gradient) product.gradient_at = before.values;
    const auto compared = testing::compare(testing::expected_product(product), y.get().data());
    EXPECT_EQ(compared.wrong, 0) << to_string(compared) << "\n" << plan.describe();
    if (gradient) {
      EXPECT_EQ(aux.get(), before.on(device, out).get()) << "it is only read";
    } else if (spec.auxiliary == Auxiliary::output) {
      product.activation = Activation::none;
      const auto kept = testing::compare(testing::expected_product(product), aux.get().data());
      EXPECT_EQ(kept.wrong, 0) << to_string(kept) << "\n" << plan.describe();
    }
    if (options.keep_gathered) {
      ASSERT_EQ(plan.gathered().sizes(), (Dims{m, spec.k}));
      std::vector<std::byte> gathered(plan.gathered().bytes());
      device->download(gathered.data(), plan.gathered().data(), gathered.size());
      EXPECT_EQ(gathered, x.on(device, spec.dtype).get());
    }
  }
  team.barrier();
}

class AllGatherLinearTest : public testing::OnEachDevice {};

TEST_P(AllGatherLinearTest, EveryTeamSizeAlgorithmAndDType) {
  for (const int ranks : testing::team_sizes()) {
    on(ranks, [](World& world) {
      for (const char* algorithm : {"auto", "pipeline", "sequence"}) {
        for (const DType dtype : {f32, bf16, f16}) {
          check(world, world.team(), {.m = 37, .n = 21, .k = 53, .dtype = dtype}, {.algorithm = algorithm});
        }
      }
    });
  }
}

TEST_P(AllGatherLinearTest, EightBitFloatsAndTheirScales) {
  for (const int ranks : testing::team_sizes()) {
    on(ranks, [](World& world) {
      for (const char* algorithm : {"pipeline", "sequence"}) {
        testing::for_each_float8(
            [&](const LinearSpec& spec) { check(world, world.team(), spec, {.algorithm = algorithm}, 2); });
      }
      LinearSpec spec{.m = 61, .n = 32, .k = 64, .dtype = f8e4m3, .scaling = Scaling::per_row};
      check(world, world.team(), spec, {.algorithm = "pipeline", .groups = 1, .sms = 0});
      check(world, world.team(), spec, {.algorithm = "sequence", .keep_gathered = true});
      spec.activation = Activation::gelu_erf;
      spec.auxiliary = Auxiliary::output;
      check(world, world.team(), spec, {});
    });
  }
}

// Too much for the kernel for small data, where the device has one: more than 2 MiB per rank, with three ranks.
TEST_P(AllGatherLinearTest, WhatIsNotSmallInSequence) {
  on(3, [](World& world) {
    const std::int64_t m = testing::beyond_kernels(world, 601);
    for (const bool keep : {false, true}) {
      check(world, world.team(), {.m = m, .n = 3, .k = 3001}, {.algorithm = "sequence", .keep_gathered = keep});
    }
  });
}

TEST_P(AllGatherLinearTest, OnFewMultiprocessorsOrNone) {
  on(3, [](World& world) {
    for (const char* algorithm : {"pipeline", "sequence"}) {
      for (const int sms : {0, 1, 7}) {
        check(world, world.team(), {.m = 61, .n = 21, .k = 530, .dtype = bf16}, {.algorithm = algorithm, .sms = sms});
      }
    }
    AllGatherLinear engines(world.team(), {.m = 61, .n = 21, .k = 530}, {.algorithm = "sequence", .sms = 0});
    const bool host = world.device().id().type == DeviceType::host;
    const char* const pushes = host ? "communication: pushes by the cores" : "communication: pushes by copy engines";
    EXPECT_NE(engines.describe().find(pushes), std::string::npos) << engines.describe();
  });
}

TEST_P(AllGatherLinearTest, LayoutsEpiloguesAlphaAndBeta) {
  on(3, [](World& world) {
    testing::for_each_epilogue(
        LinearKind::all_gather_linear, Activation::gelu_tanh, 1.5F,
        [&](const LinearSpec& spec, const LinearOptions& options) { check(world, world.team(), spec, options); });
    testing::for_each_layout(LinearKind::all_gather_linear,
                             [&](const std::string& algorithm, Layout x, Layout weight, DType dtype) {
                               check(world, world.team(),
                                     {.m = 24,
                                      .n = 8,
                                      .k = 64,
                                      .dtype = dtype,
                                      .x_layout = x,
                                      .weight_layout = weight,
                                      .activation = Activation::gelu_erf},
                                     {.algorithm = algorithm});
                             });
  });
}

TEST_P(AllGatherLinearTest, KeepsWhatItActivatesAndGoesBackThroughIt) {
  for (const int ranks : {1, 3, 4}) {
    on(ranks, [](World& world) {
      for (const Auxiliary auxiliary : {Auxiliary::output, Auxiliary::gradient}) {
        for (const Activation activation : {Activation::gelu_tanh, Activation::gelu_erf}) {
          if (world.size() == 3) {
            testing::for_each_epilogue(LinearKind::all_gather_linear, activation, 0.0F,
                                       [&](LinearSpec spec, const LinearOptions& options) {
                                         spec.activation = activation;
                                         spec.auxiliary = auxiliary;
                                         spec.bias = !spec.bias;
                                         check(world, world.team(), spec, options);
                                       });
          }
          // Adding to the old y, with a bias, at any alignment, and in groups.
          for (const DType dtype : {f32, bf16, f16}) {
            const LinearSpec spec{.m = 45,
                                  .n = 24,
                                  .k = 40,
                                  .dtype = dtype,
                                  .bias = true,
                                  .activation = activation,
                                  .auxiliary = auxiliary,
                                  .beta = 0.5F};
            check(world, world.team(), spec, {});
            check(world, world.team(), spec, {.algorithm = "pipeline"}, 3, 1);
          }
        }
      }
    });
  }
}

TEST_P(AllGatherLinearTest, TensorsThatAreAlignedForAnElementOnly) {
  on(3, [](World& world) {
    for (const char* algorithm : {"pipeline", "sequence"}) {
      for (const DType dtype : {f32, bf16, f16}) {
        check(world, world.team(), {.m = 26, .n = 17, .k = 24, .dtype = dtype, .bias = true}, {.algorithm = algorithm},
              3, 1);
      }
      for (const Scaling scaling : {Scaling::per_tensor, Scaling::per_row}) {
        check(world, world.team(), {.m = 26, .n = 32, .k = 48, .dtype = f8e4m3, .scaling = scaling, .bias = true},
              {.algorithm = algorithm}, 3, 1);
      }
    }
  });
}

TEST_P(AllGatherLinearTest, FewTokensLeaveShardsShortOrEmpty) {
  on(4, [](World& world) {
    for (const char* algorithm : {"pipeline", "sequence"}) {
      for (const std::int64_t m : {0, 1, 2, 3, 5, 9}) {
        check(world, world.team(), {.m = m, .n = 5, .k = 7}, {.algorithm = algorithm, .keep_gathered = true});
      }
      check(world, world.team(), {.m = 6, .n = 0, .k = 7}, {.algorithm = algorithm});
      check(world, world.team(), {.m = 6, .n = 5, .k = 0, .bias = true}, {.algorithm = algorithm});
    }
  });
}

TEST_P(AllGatherLinearTest, EachRankMayHaveItsOwnShareOfOutputs) {
  on(3, [](World& world) {
    check(world, world.team(), {.m = 31, .n = 10 + 3 * world.rank(), .k = 19}, {.algorithm = "pipeline"});
  });
}

TEST_P(AllGatherLinearTest, AnyNumberOfGroupsAndLargeShards) {
  on(5, [](World& world) {
    for (const int groups : {1, 2, 3, 4, 5, 7, 12, 16}) {
      for (const std::int64_t m : {61, 7, 160}) {
        check(world, world.team(), {.m = m, .n = 12, .k = 20},
              {.algorithm = "pipeline", .groups = groups, .keep_gathered = m == 160}, 6);
      }
    }
    check(world, world.team(), {.m = 640, .n = 12, .k = 1100}, {.algorithm = "pipeline"}, 2);
  });
}

TEST_P(AllGatherLinearTest, ProductsTakeTurnsWhereTheyLeaveMultiprocessorsIdle) {
  const auto check = [](const Team& team, const LinearOptions& options, bool turns) {
    const std::string text = AllGatherLinear(team, {.m = 64, .n = 16, .k = 8}, options).describe();
    EXPECT_EQ(text.find("in turns on the caller's stream and on one beside it") != std::string::npos, turns) << text;
    EXPECT_EQ(text.find("in a captured run all on the caller's stream") != std::string::npos, turns) << text;
  };
  on(2, [&](World& world) {
    const bool has_multiprocessors = world.device().id().type == DeviceType::cuda;
    check(world.team(), {.algorithm = "pipeline"}, has_multiprocessors);
    check(world.team(), {.algorithm = "sequence"}, false);
    check(world.team(), {.algorithm = "pipeline", .leave_sms = 1}, false);
    check(world.team({world.rank()}), {.algorithm = "pipeline"}, false);
  });
}

// Too large for mailboxes: kernels that access all ranks' memory handle it, but only rows that fit vector accesses.
TEST_P(AllGatherLinearTest, LargeShardsInSequence) {
  for (const int ranks : {2, 3}) {
    on(ranks, [](World& world) {
      const std::int64_t m = testing::beyond_kernels(world, 601);
      for (const std::int64_t k : {4100, 4101}) {
        check(world, world.team(), {.m = m, .n = 3, .k = k}, {.algorithm = "sequence", .keep_gathered = true}, 3);
      }
      check(world, world.team(), {.m = m, .n = 3, .k = 4100}, {.algorithm = "sequence", .sms = 3}, 2);
    });
  }
}

TEST_P(AllGatherLinearTest, SubTeamsInOddOrdersKeepTheirGatheredX) {
  on(5, [](World& world) {
    for (const std::vector<int>& ranks : {std::vector<int>{3, 0, 4}, {1, 2}, {4, 2, 0, 1}}) {
      const Team team = world.team(ranks);
      if (!team) continue;
      for (const std::string& algorithm : linear_algorithms(LinearKind::all_gather_linear)) {
        for (const DType dtype : {f32, bf16, f16}) {
          check(world, team, {.m = 29, .n = 11, .k = 13, .dtype = dtype},
                {.algorithm = algorithm, .keep_gathered = true}, 5);
        }
      }
    }
    world.team().barrier();
  });
}

TEST_P(AllGatherLinearTest, WrongUseSaysWhatIsRight) {
  on(2, [](World& world) {
    const auto& device = world.shared_device();
    const Team& team = world.team();
    const std::string where = "AllGatherLinear on rank " + std::to_string(world.rank());
    const LinearSpec small{.m = 4, .n = 4, .k = 4};
    const auto refused = [&](const LinearSpec& spec, const LinearOptions& options, const std::string& given,
                             const std::string& allowed) {
      testing::expect_error<InvalidArgument>([&] { AllGatherLinear(team, spec, options); }, {given, allowed});
    };
    refused(small, {.algorithm = "magic"}, "magic", "pipeline, sequence");
    refused(small, {.groups = 9}, "9", "1 to 8");
    refused({.m = -4, .n = 4, .k = 4}, {}, "m=-4", "negative");
    refused({.m = 4 + world.rank(), .n = 4, .k = 4}, {}, "m=5", "m=4");
    testing::expect_error<Unsupported>([&] { AllGatherLinear(team, {.m = 4, .n = 4, .k = 4, .dtype = i32}); },
                                       {"i32", "f32, bf16, f16, f8e4m3 and f8e5m2"});

    AllGatherLinear plan(team, {.m = 8, .n = 4, .k = 6});
    const Stream stream(*device);
    const GuardedTensor x(device, {4, 6}, f32);
    const GuardedTensor weight(device, {4, 6}, f32);
    const GuardedTensor y(device, {8, 4}, f32);
    const GuardedTensor half(device, {4, 6}, f16);
    const GuardedTensor large(device, {10, 4}, f32);
    const auto misused = [&](std::initializer_list<std::string> parts, const auto& use) {
      testing::expect_error<InvalidArgument>(use, parts);
    };
    misused({where, "x", "f16", "f32"}, [&] { plan(half.view(), weight.view(), y.view(), stream); });
    misused({where, "10", "at most 8"}, [&] { plan(weight.view(), x.view(), large.view(), stream); });
    misused({where, "x", "[8, 4]", "[4, 6]"}, [&] { plan(y.view(), weight.view(), y.view(), stream); });
    misused({where, "bias"}, [&] { plan(x.view(), weight.view(), x.view(), y.view(), stream); });
    misused({where, "keep_gathered"}, [&] { static_cast<void>(plan.gathered()); });
    world.team().barrier();
  });
}

TANDEM_ON_EACH_DEVICE(AllGatherLinearTest);

TEST(AllGatherLinearOverALink, MultipliesTheFirstShardLongBeforeTheLastIsThere) {
  const auto body = [](World& world) {
    Device& device = world.device();
    AllGatherLinear plan(world.team(), {.m = 16, .n = 8, .k = 256}, {.groups = 3});
    const Stream stream(device);
    const GuardedTensor x(world.shared_device(), {4, 256}, f32);
    const GuardedTensor weight(world.shared_device(), {8, 256}, f32);
    const GuardedTensor y(world.shared_device(), {16, 8}, f32);
    // Takes the least disturbed of several runs: a late peer delays its first shard as much as its last.
    double earliest = 1;
    for (int run = 0; run < 5; ++run) {
      device.trace().clear();
      device.trace().enable(true);
      plan(x.view(), weight.view(), y.view(), stream);
      world.team().synchronize(stream);
      device.trace_collect();
      std::int64_t begin = 0;
      std::vector<std::int64_t> products;
      for (const TraceEvent& event : device.trace().events()) {
        if (event.name == "GEMM own shard") begin = event.begin_ns;
        if (event.name == "GEMM arrived shards") products.push_back(event.begin_ns);
      }
      ASSERT_EQ(products.size(), 3U);
      earliest = std::min(earliest,
                          static_cast<double>(products.front() - begin) / static_cast<double>(products.back() - begin));
      world.team().barrier();
    }
    EXPECT_LT(earliest, 0.7) << "a third where shards come one after the other, 1 where they come together";
  };
  // Shards of 4 KiB, each of which takes 16 ms.
  Env env;
  env.link = LinkOptions{.latency = std::chrono::microseconds(100), .bytes_per_second = 2.5e5};
  testing::run_ranks(4, body, {.env = env});
}

}  // namespace
}  // namespace tandem
