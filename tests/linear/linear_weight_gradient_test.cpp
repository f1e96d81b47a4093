// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/linear_weight_gradient.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/linear/all_gather_linear.hpp"

#include "linear/tensors.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"

namespace tandem {
namespace {

using testing::gradient_dtypes;
using testing::GuardedTensor;
using testing::Matrix;

void check(World& world, const Team& team, const LinearSpec& spec, GatheredOperand gathered,
           const LinearOptions& options, int runs = 3, std::int64_t offset = 0, bool starts = false) {
  const auto& device = world.shared_device();
  const bool gathers_x = gathered == GatheredOperand::x;
  LinearWeightGradient plan(team, spec, gathered, options);
  const Stream stream(*device);
  for (int run = 0; run < runs; ++run) {
    const std::int64_t m = run == 1 ? spec.m / 2 : spec.m;
    const auto own = static_cast<std::uint64_t>(team.rank());
    const auto key = [&](std::uint64_t which) {
      return testing::key(testing::seed(), {which, static_cast<std::uint64_t>(run)});
    };
    // The gathered operand is the same on all ranks; each rank has its own other operand.
    const Matrix x = Matrix::random(key(gathers_x ? 1 : 100 + own), m, spec.k, spec.dtype);
    const Matrix dy = Matrix::random(key(gathers_x ? 200 + own : 2), m, spec.n, spec.dtype);
    const Matrix start = Matrix::random(key(300 + own), spec.n, spec.k, spec.gradient_dtype);
    const Shard rows = shard_of(m, team.size(), team.rank());

    const GuardedTensor x_on = (gathers_x ? x.part(rows) : x).on(device, spec.dtype, Layout::normal, offset);
    const GuardedTensor dy_on = (gathers_x ? dy : dy.part(rows)).on(device, spec.dtype, Layout::normal, offset);
    GuardedTensor dw = start.on(device, spec.gradient_dtype, Layout::normal, offset);
    if (spec.beta == 0.0F) dw.poison();
    testing::maybe_delay(stream, testing::random_bits(key(400 + own), 0));
    if (starts && run != 2) {  // run 2 gathers by itself
      plan.start((gathers_x ? x_on : dy_on).view(), m, stream);
      testing::maybe_delay(stream, testing::random_bits(key(400 + own), 1));
    }
    plan(dy_on.view(), x_on.view(), dw.view(), stream);
    for (const GuardedTensor* operand : {&dy_on, &x_on}) operand->poison(stream);
    team.synchronize(stream);

    const Matrix a = dy.transposed();
    const auto expected =
        testing::expected_product({.m = spec.n,
                                   .n = spec.k,
                                   .k = m,
                                   .a = a.values,
                                   .b = x.values,
                                   .start = spec.beta == 0.0F ? std::span<const double>() : start.values,
                                   .alpha = spec.alpha,
                                   .beta = spec.beta,
                                   .dtype = spec.gradient_dtype,
                                   .rounds_between = team.device().id().type == DeviceType::cuda});
    const auto compared = testing::compare(expected, dw.get().data());
    EXPECT_EQ(compared.wrong, 0) << to_string(compared) << "\n" << plan.describe();
  }
  team.barrier();
}

class WeightGradient : public testing::OnEachDevice {};

TEST_P(WeightGradient, EveryTeamSizeAlgorithmDTypeAndOperand) {
  for (const int ranks : testing::team_sizes()) {
    on(ranks, [](World& world) {
      for (const GatheredOperand gathered : {GatheredOperand::x, GatheredOperand::dy}) {
        for (const char* algorithm : {"auto", "pipeline", "sequence"}) {
          for (const DType dtype : {f32, bf16, f16}) {
            for (const DType gradient : gradient_dtypes(dtype)) {
              check(world, world.team(), {.m = 45, .n = 14, .k = 23, .dtype = dtype, .gradient_dtype = gradient},
                    gathered, {.algorithm = algorithm});
            }
          }
        }
      }
    });
  }
}

TEST_P(WeightGradient, AddsToWhatDwHolds) {
  on(3, [](World& world) {
    for (const char* algorithm : {"pipeline", "sequence"}) {
      for (const GatheredOperand gathered : {GatheredOperand::x, GatheredOperand::dy}) {
        for (const DType dtype : {bf16, f16}) {
          for (const DType gradient : gradient_dtypes(dtype)) {
            for (const float beta : {1.0F, -0.5F}) {
              check(
                  world, world.team(),
                  {.m = 33, .n = 9, .k = 12, .dtype = dtype, .gradient_dtype = gradient, .alpha = 0.25F, .beta = beta},
                  gathered, {.algorithm = algorithm});
            }
          }
        }
      }
    }
  });
}

// Sums of whole numbers are exact in f32, so dW's bits must be those of the exact sum, rounded once, in however many
// parts it was summed.
TEST_P(WeightGradient, RoundsASumOnceHoweverItIsMade) {
  for (const int ranks : testing::team_sizes()) {
    on(ranks, [ranks](World& world) {
      const auto& device = world.shared_device();
      const Stream stream(*device);
      for (const DType dtype : {bf16, f16}) {
        const LinearSpec spec{
            .m = 41, .n = 13, .k = 17, .dtype = dtype, .gradient_dtype = dtype, .alpha = 0.125F, .beta = 1.0F};
        const auto whole = [](std::uint64_t number, std::int64_t rows, std::int64_t columns) {
          return Matrix::random(testing::key(testing::seed(), {number}), rows, columns, i32);
        };
        const Matrix x = whole(1, spec.m, spec.k);
        const Matrix dy = whole(2, spec.m, spec.n);
        const Matrix start = whole(3, spec.n, spec.k);
        const Matrix dy_transposed = dy.transposed();
        const auto exact = testing::expected_product({.m = spec.n,
                                                      .n = spec.k,
                                                      .k = spec.m,
                                                      .a = dy_transposed.values,
                                                      .b = x.values,
                                                      .start = start.values,
                                                      .alpha = spec.alpha,
                                                      .beta = spec.beta});
        testing::Bytes rounded(exact.value.size() * size_of(dtype));
        testing::store(exact.value, dtype, rounded.data());
        const GuardedTensor dy_on = dy.on(device, dtype);
        const GuardedTensor x_on = x.part(shard_of(spec.m, ranks, world.rank())).on(device, dtype);
        std::vector<LinearOptions> ways{{.algorithm = "sequence", .groups = std::nullopt}};
        for (const int groups : {1, 2, 5}) {
          if (groups > std::max(1, most_groups(LinearKind::linear_weight_gradient, spec, ranks))) continue;
          ways.push_back({.algorithm = "pipeline", .groups = groups});
        }
        for (const LinearOptions& way : ways) {
          LinearWeightGradient plan(world.team(), spec, GatheredOperand::x, way);
          const GuardedTensor dw = start.on(device, dtype);
          plan(dy_on.view(), x_on.view(), dw.view(), stream);
          world.team().synchronize(stream);
          const auto compared = testing::compare_bytes(rounded, dw.get().data());
          EXPECT_EQ(compared.wrong, 0) << testing::to_string(compared) << "\n" << plan.describe();
        }
      }
      world.team().barrier();
    });
  }
}

TEST_P(WeightGradient, SaysWhereAPipelineAddsUpFor16Bits) {
  on(2, [](World& world) {
    const LinearSpec spec{.m = 8, .n = 5, .k = 3, .dtype = bf16, .gradient_dtype = bf16};
    const auto described = [&](const Team& team, const LinearSpec& of, const char* algorithm) {
      return LinearWeightGradient(team, of, GatheredOperand::x, {.algorithm = algorithm}).describe();
    };
    testing::expect_says(
        described(world.team(), spec, "pipeline"),
        {"k=3 bf16 into bf16", "products of parts:", "added up in f32 (60 bytes beside dW)", "rounded once to bf16"});
    LinearSpec wide = spec;
    wide.gradient_dtype = f32;
    const Team alone = world.team({0});
    std::vector<std::string> others{described(world.team(), spec, "sequence"),
                                    described(world.team(), wide, "pipeline")};
    if (alone) others.push_back(described(alone, spec, "pipeline"));
    for (const std::string& text : others) EXPECT_EQ(text.find("products of parts"), std::string::npos) << text;
    world.team().barrier();
  });
}

TEST_P(WeightGradient, TensorsThatAreAlignedForAnElementOnly) {
  on(3, [](World& world) {
    for (const char* algorithm : {"pipeline", "sequence"}) {
      for (const GatheredOperand gathered : {GatheredOperand::x, GatheredOperand::dy}) {
        for (const DType dtype : {f32, bf16, f16}) {
          for (const DType gradient : gradient_dtypes(dtype)) {
            check(world, world.team(), {.m = 26, .n = 17, .k = 24, .dtype = dtype, .gradient_dtype = gradient},
                  gathered, {.algorithm = algorithm}, 3, 1);
          }
        }
      }
    }
  });
}

TEST_P(WeightGradient, AnyNumberOfGroups) {
  on(4, [](World& world) {
    for (const int groups : {1, 2, 3, 4, 5, 7, 12}) {
      for (const GatheredOperand gathered : {GatheredOperand::x, GatheredOperand::dy}) {
        for (const DType dtype : {f32, bf16}) {
          check(world, world.team(), {.m = 61, .n = 12, .k = 20, .dtype = dtype, .gradient_dtype = dtype, .beta = 1.0F},
                gathered, {.algorithm = "pipeline", .groups = groups}, 4);
        }
      }
    }
  });
}

TEST_P(WeightGradient, StartsBeforeTheOtherOperandIsThere) {
  for (const int ranks : testing::team_sizes()) {
    on(ranks, [](World& world) {
      for (const GatheredOperand gathered : {GatheredOperand::x, GatheredOperand::dy}) {
        for (const char* algorithm : {"auto", "pipeline", "sequence"}) {
          for (const DType dtype : {f32, bf16}) {
            for (const DType gradient : gradient_dtypes(dtype)) {
              check(world, world.team(),
                    {.m = 45, .n = 14, .k = 23, .dtype = dtype, .gradient_dtype = gradient, .beta = 1.0F}, gathered,
                    {.algorithm = algorithm}, 5, 0, true);
            }
          }
        }
        for (const std::int64_t m : {0, 1, 3}) {
          check(world, world.team(), {.m = m, .n = 4, .k = 6, .beta = 1.0F}, gathered, {}, 3, 1, true);
        }
      }
    });
  }
}

TEST_P(WeightGradient, AStartIsForTheNextRun) {
  on(2, [](World& world) {
    const auto& device = world.shared_device();
    LinearWeightGradient plan(world.team(), {.m = 8, .n = 3, .k = 5}, GatheredOperand::x);
    const Stream stream(*device);
    const GuardedTensor x(world.team(), {4, 5}, f32);
    const GuardedTensor other(world.team(), {4, 5}, f32);
    const GuardedTensor half(world.team(), {2, 5}, f32);
    const GuardedTensor dy(world.team(), {8, 3}, f32);
    const GuardedTensor dw(world.team(), {3, 5}, f32);
    testing::expect_error<InvalidArgument>([&] { plan.start(x.view(), 9, stream); }, {"start() of 9 tokens", "0 to 8"});
    testing::expect_error<InvalidArgument>([&] { plan.start(x.view(), 4, stream); }, {"x is", "[2, 5]"});
    plan.start(x.view(), 8, stream);
    testing::expect_error<InvalidArgument>([&] { plan.start(x.view(), 8, stream); }, {"called twice"});
    testing::expect_error<InvalidArgument>([&] { plan(dy.view(), other.view(), dw.view(), stream); },
                                           {"came behind a start() of 8"});
    testing::expect_error<InvalidArgument>([&] { plan(dy.view().narrow(0, 0, 4), half.view(), dw.view(), stream); },
                                           {"a run of 4 tokens"});
    plan(dy.view(), x.view(), dw.view(), stream);
    // A view without rows may be at address null.
    const TensorView own = x.view().narrow(0, 0, world.rank() == 0 ? 1 : 0);
    const TensorView nowhere(nullptr, {0, 5}, f32, device->id());
    plan.start(world.rank() == 0 ? own : nowhere, 1, stream);
    plan(dy.view().narrow(0, 0, 1), own, dw.view(), stream);
    world.team().synchronize(stream);
  });
}

TEST_P(WeightGradient, SubTeamsInOddOrders) {
  on(5, [](World& world) {
    for (const std::vector<int>& ranks : {std::vector<int>{3, 0, 4}, {1, 2}, {4, 2, 0, 1}}) {
      const Team team = world.team(ranks);
      if (!team) continue;
      for (const GatheredOperand gathered : {GatheredOperand::x, GatheredOperand::dy}) {
        for (const std::string& algorithm : linear_algorithms(LinearKind::linear_weight_gradient)) {
          for (const DType dtype : {f32, bf16, f16}) {
            for (const DType gradient : gradient_dtypes(dtype)) {
              check(world, team, {.m = 29, .n = 11, .k = 13, .dtype = dtype, .gradient_dtype = gradient}, gathered,
                    {.algorithm = algorithm}, 5);
            }
          }
        }
      }
    }
    world.team().barrier();
  });
}

TEST_P(WeightGradient, FewTokensLeaveShardsShortOrEmpty) {
  on(4, [](World& world) {
    for (const char* algorithm : {"pipeline", "sequence"}) {
      for (const std::int64_t m : {0, 1, 3, 5}) {
        check(world, world.team(), {.m = m, .n = 4, .k = 6, .beta = 1.0F}, GatheredOperand::x,
              {.algorithm = algorithm});
        check(world, world.team(), {.m = m, .n = 4, .k = 6}, GatheredOperand::dy, {.algorithm = algorithm});
        LinearSpec narrow{.m = m, .n = 4, .k = 6, .dtype = bf16, .gradient_dtype = bf16, .beta = 1.0F};
        check(world, world.team(), narrow, GatheredOperand::dy, {.algorithm = algorithm});
        if (world.rank() == 1) narrow.n = 0;  // a rank without any outputs
        check(world, world.team(), narrow, GatheredOperand::x, {.algorithm = algorithm});
      }
    }
  });
}

TEST_P(WeightGradient, RefusesWhatItDoesNotHave) {
  on(1, [](World& world) {
    testing::expect_error<Unsupported>(
        [&] { LinearWeightGradient(world.team(), {.m = 4, .n = 4, .k = 4, .bias = true}, GatheredOperand::x); },
        {"LinearWeightGradient on rank 0", "bias"});
    testing::expect_error<Unsupported>(
        [&] {
          LinearWeightGradient(world.team(), {.m = 4, .n = 4, .k = 4, .x_layout = Layout::transposed},
                               GatheredOperand::x);
        },
        {"LinearWeightGradient on rank 0", "layout"});
    testing::expect_error<InvalidArgument>(
        [&] {
          LinearWeightGradient(world.team(), {.m = 4, .n = 4, .k = 4, .dtype = bf16, .tf32 = true}, GatheredOperand::x);
        },
        {"LinearWeightGradient on rank 0", "TF32", "bf16", "f32"});
    const auto of = [&](DType dtype, DType gradient) {
      return [&world, dtype, gradient] {
        LinearWeightGradient(world.team(), {.m = 4, .n = 4, .k = 4, .dtype = dtype, .gradient_dtype = gradient},
                             GatheredOperand::x);
      };
    };
    testing::expect_error<InvalidArgument>(
        of(bf16, f16), {"LinearWeightGradient on rank 0", "a gradient of f16", "dtype bf16", "allowed: f32 or bf16"});
    testing::expect_error<InvalidArgument>(of(f32, bf16), {"a gradient of bf16", "dtype f32; allowed: f32"});
    testing::expect_error<InvalidArgument>(
        [&] { AllGatherLinear(world.team(), {.m = 4, .n = 4, .k = 4, .dtype = bf16, .gradient_dtype = bf16}); },
        {"AllGatherLinear on rank 0", "a gradient of bf16", "only LinearWeightGradient"});

    LinearWeightGradient plan(world.team(), {.m = 4, .n = 4, .k = 4, .dtype = bf16, .gradient_dtype = bf16},
                              GatheredOperand::x);
    const Stream stream(world.device());
    const GuardedTensor narrow(world.team(), {4, 4}, bf16);
    const GuardedTensor wide(world.team(), {4, 4}, f32);
    testing::expect_error<InvalidArgument>([&] { plan(narrow.view(), narrow.view(), wide.view(), stream); },
                                           {"dw is", "f32", "bf16"});
  });
}

TANDEM_ON_EACH_DEVICE(WeightGradient);

}  // namespace
}  // namespace tandem
