// SPDX-License-Identifier: Apache-2.0
// LinearReduceScatter and LinearAllReduce: the same sum over ranks, but different result layouts.
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tandem/linear/linear_all_reduce.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"

#include "linear/tensors.hpp"
#include "support/devices.hpp"

namespace tandem {
namespace {

using testing::GuardedTensor;
using testing::Matrix;
using testing::run_ranks;

/// The rows of the sum that this rank gets.
Shard rows_of(const LinearReduceScatter&, const Team& team, std::int64_t m) {
  return shard_of(m, team.size(), team.rank());
}
Shard rows_of(const LinearAllReduce&, const Team&, std::int64_t m) { return {0, m}; }

/// Whether this run of a plan stores its sum in a symmetric tensor.
template <typename Plan> constexpr bool is_symmetric(int run) {
  return std::is_same_v<Plan, LinearAllReduce> && run % 3 == 2;
}

/// `spec.k` is rank 0's share of the inputs; rank r has `spec.k + r · k_step`. Each third run of an all-reduce has a
/// symmetric y.
template <typename Plan>
void check_plan(World& world, const Team& team, LinearSpec spec, const LinearOptions& options, int runs = 3,
                std::int64_t k_step = 0, std::int64_t offset = 0) {
  const auto& device = world.shared_device();
  const std::int64_t first_k = spec.k;
  spec.k += team.rank() * k_step;
  Plan plan(team, spec, options);
  const Stream stream(*device);
  std::vector<std::vector<std::byte>> results;
  for (int run = 0; run < runs; ++run) {
    const std::int64_t m = run == 1 ? spec.m / 2 : spec.m;
    const auto key = [&](std::uint64_t which) {
      return testing::key(testing::seed(), {which, static_cast<std::uint64_t>(run)});
    };
    const DType out_dtype = spec.dtype_of_y();
    std::vector<Matrix> xs;
    std::vector<Matrix> weights;
    std::vector<Matrix> x_scales;
    std::vector<Matrix> weight_scales;
    std::vector<Matrix> scaled_xs;
    std::vector<Matrix> scaled_weights;
    std::vector<std::int64_t> parts;
    for (int rank = 0; rank < team.size(); ++rank) {
      const auto its = static_cast<std::uint64_t>(rank);
      parts.push_back(first_k + rank * k_step);
      xs.push_back(Matrix::random(key(100 + its), m, parts.back(), spec.dtype));
      weights.push_back(Matrix::random(key(200 + its), spec.n, parts.back(), spec.dtype_of_weight()));
      x_scales.push_back(testing::random_scales(key(600 + its), spec.scaling, m));
      weight_scales.push_back(testing::random_scales(key(700 + its), spec.scaling, spec.n));
      scaled_xs.push_back(scaled(xs.back(), x_scales.back()));
      scaled_weights.push_back(scaled(weights.back(), weight_scales.back()));
    }
    const Matrix x = joined(scaled_xs);
    const Matrix b = joined(scaled_weights).transposed();
    const Matrix bias = Matrix::random(key(3), 1, spec.bias ? spec.n : 0, out_dtype);
    const Matrix all_start = Matrix::random(key(4), m, spec.n, out_dtype);
    const Shard rows = rows_of(plan, team, m);
    const Matrix own_x = x.part(rows);
    const Matrix start = all_start.part(rows);

    const auto own = static_cast<std::size_t>(team.rank());
    const GuardedTensor x_on = xs[own].on(device, spec.dtype, spec.x_layout, offset);
    const GuardedTensor weight_on = weights[own].on(device, spec.dtype_of_weight(), spec.weight_layout, offset);
    const GuardedTensor bias_on(device, {bias.columns}, out_dtype, bias.values, offset);
    const GuardedTensor x_scale_on = testing::scales_on(device, x_scales[own], offset);
    const GuardedTensor weight_scale_on = testing::scales_on(device, weight_scales[own], offset);
    GuardedTensor y = start.on(device, out_dtype, Layout::normal, offset);
    if (spec.beta == 0.0F) y.poison();

    testing::maybe_delay(stream, testing::random_bits(key(500 + own), 0));
    const auto run_into = [&](const auto& out) {
      if (spec.scaling != Scaling::none) {
        LinearOperands operands{.x = x_on.view(),
                                .weight = weight_on.view(),
                                .bias = testing::view_if(spec.bias, bias_on),
                                .x_scale = x_scale_on.view(),
                                .weight_scale = weight_scale_on.view()};
        if constexpr (std::is_same_v<decltype(out), const SymmetricTensor&>) {
          plan(operands, out, stream);
        } else {
          operands.y = out;
          plan(operands, stream);
        }
      } else if (spec.bias) {
        plan(x_on.view(), weight_on.view(), bias_on.view(), out, stream);
      } else {
        plan(x_on.view(), weight_on.view(), out, stream);
      }
      for (const GuardedTensor* operand : {&x_on, &weight_on, &bias_on, &x_scale_on, &weight_scale_on}) {
        operand->poison(stream);
      }
      team.synchronize(stream);
    };
    if constexpr (is_symmetric<Plan>(2)) {
      if (is_symmetric<Plan>(run)) {
        SymmetricTensor all = SymmetricTensor::empty(team, {m, spec.n}, out_dtype);
        all.rendezvous();
        device->copy(stream, {.dst = all.local().data(), .src = y.view().data(), .bytes = y.view().bytes()});
        run_into(all);
        device->copy(stream, {.dst = y.view().data(), .src = all.local().data(), .bytes = y.view().bytes()});
        team.synchronize(stream);
      } else {
        run_into(y.view());
      }
    } else {
      run_into(y.view());
    }

    std::vector<std::size_t> owners;
    for (std::int64_t row = rows.begin; row < rows.begin + rows.count; ++row) {
      owners.push_back(static_cast<std::size_t>(row / shard_of(m, team.size(), 0).count));
    }
    const auto expected =
        testing::expected_product({.m = rows.count,
                                   .n = spec.n,
                                   .k = x.columns,
                                   .a = own_x.values,
                                   .b = b.values,
                                   .start = spec.beta == 0.0F ? std::span<const double>() : start.values,
                                   .bias = bias.values,
                                   .alpha = spec.alpha,
                                   .beta = spec.beta,
                                   .activation = spec.activation,
                                   .parts = parts,
                                   .travels = out_dtype,
                                   .owners = owners,
                                   .dtype = out_dtype,
                                   .summed_within = testing::summed_within(spec, *device),
                                   .rounds_between = team.device().id().type == DeviceType::cuda});
    const testing::Bytes mine = y.get();
    const auto compared = testing::compare(expected, mine.data());
    EXPECT_EQ(compared.wrong, 0) << to_string(compared) << "\n" << plan.describe();
    if constexpr (std::is_same_v<Plan, LinearAllReduce>) {
      // The bits must be equal on every rank.
      for (const Parcel& other : team.exchange("compare results", {.bytes = mine, .descriptors = {}})) {
        ASSERT_EQ(other.bytes.size(), mine.size());
        const auto same = testing::compare_bytes(other.bytes, mine.data());
        EXPECT_EQ(same.wrong, 0) << to_string(same);
      }
    }
  }
  team.barrier();
}

/// Sums whole numbers that travel exactly, but whose sums have more bits than the dtype: only a sum that is rounded
/// once has the right ones.
template <typename Plan> void check_rounding(const Team& team, DType dtype, const LinearOptions& options) {
  const LinearSpec spec{.m = 43, .n = 6, .k = 1, .dtype = dtype};
  const std::uint64_t most = dtype == bf16 ? 1 << 8 : 1 << 11;
  const Stream stream(team.device());
  Plan plan(team, spec, options);
  std::vector<Matrix> xs;
  for (int rank = 0; rank < team.size(); ++rank) {
    xs.push_back({spec.m, 1, {}});
    for (std::int64_t row = 0; row < spec.m; ++row) {
      const std::uint64_t bits = testing::random_bits(
          testing::key(testing::seed(), {600 + static_cast<std::uint64_t>(rank)}), static_cast<std::uint64_t>(row));
      xs.back().values.push_back(static_cast<double>(most / 2 + bits % (most / 2)));
    }
  }
  const Matrix weight{spec.n, 1, {1, -1, 1, -1, 1, -1}};
  const GuardedTensor x_on = xs[static_cast<std::size_t>(team.rank())].on(team.shared_device(), dtype);
  const GuardedTensor weight_on = weight.on(team.shared_device(), dtype);
  const Shard rows = rows_of(plan, team, spec.m);
  GuardedTensor y(team, {rows.count, spec.n}, dtype);
  plan(x_on.view(), weight_on.view(), y.view(), stream);
  team.synchronize(stream);

  const auto rounded = [dtype](double value) {
    testing::Bytes stored(size_of(dtype));
    testing::store(std::span(&value, 1), dtype, stored.data());
    return testing::load(stored.data(), 1, dtype).front();
  };
  std::vector<double> once;
  std::vector<double> each_time;
  for (std::int64_t row = 0; row < spec.m; ++row) {
    for (const double factor : weight.values) {
      double exact = 0;
      double narrow = 0;
      for (const Matrix& x : xs) {
        const double part = factor * x.values[static_cast<std::size_t>(row)];
        exact += part;
        narrow = rounded(narrow + part);
      }
      once.push_back(rounded(exact));
      each_time.push_back(narrow);
    }
  }
  if (team.size() > 2) {
    EXPECT_NE(once, each_time) << "nothing would be seen";
  }
  const Matrix own = Matrix{spec.m, spec.n, once}.part(rows);
  EXPECT_EQ(testing::load(y.get().data(), rows.count * spec.n, dtype), own.values) << plan.describe();
  team.barrier();
}

class RowParallel : public ::testing::TestWithParam<std::tuple<LinearKind, DeviceType>> {
 protected:
  void SetUp() override {
    if (const std::string reason = testing::why_no_ranks_on(device()); !reason.empty()) GTEST_SKIP() << reason;
  }
  static LinearKind kind() { return std::get<LinearKind>(GetParam()); }
  static std::vector<std::string> algorithms() { return linear_algorithms(kind()); }
  static DeviceType device() { return std::get<DeviceType>(GetParam()); }
  static void on(int ranks, const std::function<void(World&)>& body) { run_ranks(ranks, body, {.device = device()}); }

  /// check_plan() for this test's kind of plan.
  template <typename... More>
  static void check(World& world, const Team& team, const LinearSpec& spec, const LinearOptions& options,
                    const More&... more) {
    if (kind() == LinearKind::linear_all_reduce) {
      check_plan<LinearAllReduce>(world, team, spec, options, more...);
    } else {
      check_plan<LinearReduceScatter>(world, team, spec, options, more...);
    }
  }
};

TEST_P(RowParallel, EveryTeamSizeAlgorithmAndDType) {
  for (const int ranks : testing::team_sizes()) {
    on(ranks, [](World& world) {
      std::vector<std::string> all = algorithms();
      all.insert(all.begin(), "auto");
      for (const std::string& algorithm : all) {
        for (const DType dtype : {f32, bf16, f16}) {
          check(world, world.team(), {.m = 37, .n = 21, .k = 13, .dtype = dtype}, {.algorithm = algorithm});
        }
      }
    });
  }
}

TEST_P(RowParallel, EightBitFloatsAndTheirScales) {
  for (const int ranks : testing::team_sizes()) {
    on(ranks, [](World& world) {
      for (const std::string& algorithm : algorithms()) {
        testing::for_each_float8(
            [&](const LinearSpec& spec) { check(world, world.team(), spec, {.algorithm = algorithm}, 3, 16); });
      }
    });
  }
}

TEST_P(RowParallel, SumsOf16BitsAreRoundedOnce) {
  for (const int ranks : testing::team_sizes()) {
    on(ranks, [](World& world) {
      for (const std::string& algorithm : algorithms()) {
        for (const DType dtype : {bf16, f16}) {
          if (kind() == LinearKind::linear_all_reduce) {
            check_rounding<LinearAllReduce>(world.team(), dtype, {.algorithm = algorithm});
          } else {
            check_rounding<LinearReduceScatter>(world.team(), dtype, {.algorithm = algorithm});
          }
        }
      }
    });
  }
}

// Too much for the kernel that handles small data, where the device has one: more than 4 MiB on a rank's links, and in
// all. Kernels that access all ranks' memory handle it, but only rows that fit vector accesses.
TEST_P(RowParallel, WhatIsNotSmallInSequence) {
  for (const int ranks : {2, 3}) {
    on(ranks, [](World& world) {
      const std::int64_t m = testing::beyond_kernels(world, 601);
      LinearSpec spec{.m = m, .n = 4100, .k = 3, .bias = true, .activation = Activation::gelu_tanh, .beta = 0.5F};
      check(world, world.team(), spec, {.algorithm = "sequence"}, 3);
      check(world, world.team(), spec, {.algorithm = "sequence", .sms = 3}, 2);
      spec.n = 4101;
      check(world, world.team(), spec, {.algorithm = "sequence"}, 2);
      spec = {.m = 2 * m, .n = 4104, .k = 3, .dtype = bf16, .bias = true, .activation = Activation::gelu_tanh};
      check(world, world.team(), spec, {.algorithm = "sequence"}, 1);
    });
  }
}

// What one kernel sums by mail in two steps is summed by a different kernel if y is symmetric.
TEST_P(RowParallel, WhatIsSmallInSequence) {
  for (const int ranks : {3, 4, 5, 8}) {
    on(ranks, [](World& world) {
      const std::int64_t m = testing::beyond_kernels(world, 301);
      LinearSpec spec{.m = m, .n = 1028, .k = 5, .bias = true, .activation = Activation::gelu_tanh, .beta = 0.5F};
      check(world, world.team(), spec, {.algorithm = "sequence"}, 6);
      spec.beta = 0.0F;
      spec.n = 1027;
      check(world, world.team(), spec, {.algorithm = "sequence"}, 3);
    });
  }
}

// With several groups and without beta or activation, the own rows' GEMM adds what the peer sent.
TEST_P(RowParallel, TwoRanksInAnyNumberOfGroups) {
  on(2, [](World& world) {
    const Team backwards = world.team({1, 0});
    testing::for_each_epilogue(kind(), Activation::gelu_tanh, 0.0F, [&](LinearSpec spec, LinearOptions options) {
      if (!has_groups(options.algorithm)) return;
      for (const int groups : {1, 3, 8}) {
        options.groups = groups;
        check(world, groups == 3 ? backwards : world.team(), spec, options);
      }
    });
    for (const std::int64_t m : {0, 1, 2, 3, 640}) {
      check(world, world.team(), {.m = m, .n = 12, .k = 20}, {.algorithm = "pipeline", .groups = 4}, 6);
    }
    check(world, world.team(), {.m = 6, .n = 5, .k = 0, .bias = true}, {.algorithm = "pipeline", .groups = 2}, 3, 2);
    // With beta, y has to be added as well, so the GEMM does not add what the peer sent.
    check(world, world.team(), {.m = 64, .n = 5, .k = 7, .beta = 0.5F}, {.algorithm = "pipeline", .groups = 2});
  });
}

TEST_P(RowParallel, LayoutsEpiloguesAlphaAndBeta) {
  on(3, [](World& world) {
    testing::for_each_epilogue(
        kind(), Activation::gelu_erf, -1.5F,
        [&](const LinearSpec& spec, const LinearOptions& options) { check(world, world.team(), spec, options); });
  });
}

TEST_P(RowParallel, BothGelusOfTheSum) {
  on(3, [](World& world) {
    for (const std::string& algorithm : algorithms()) {
      for (const Activation activation : {Activation::gelu_erf, Activation::gelu_tanh}) {
        check(world, world.team(), {.m = 24, .n = 8, .k = 40, .dtype = f16, .bias = true, .activation = activation},
              {.algorithm = algorithm});
      }
    }
  });
}

TEST_P(RowParallel, TensorsThatAreAlignedForAnElementOnly) {
  on(3, [](World& world) {
    for (const std::string& algorithm : algorithms()) {
      for (const DType dtype : {f32, bf16, f16}) {
        check(world, world.team(), {.m = 26, .n = 17, .k = 24, .dtype = dtype, .bias = true}, {.algorithm = algorithm},
              3, 0, 1);
      }
      for (const Scaling scaling : {Scaling::per_tensor, Scaling::per_row}) {
        check(world, world.team(), {.m = 26, .n = 32, .k = 48, .dtype = f8e4m3, .scaling = scaling, .bias = true},
              {.algorithm = algorithm}, 3, 0, 1);
      }
    }
  });
}

TEST_P(RowParallel, FewTokensLeaveShardsShortOrEmpty) {
  on(4, [](World& world) {
    for (const std::string& algorithm : algorithms()) {
      for (const std::int64_t m : {0, 1, 2, 3, 5, 9}) {
        check(world, world.team(), {.m = m, .n = 5, .k = 7, .bias = true}, {.algorithm = algorithm});
      }
      check(world, world.team(), {.m = 6, .n = 0, .k = 7}, {.algorithm = algorithm});
      check(world, world.team(), {.m = 6, .n = 5, .k = 0}, {.algorithm = algorithm}, 3, 2);
    }
  });
}

TEST_P(RowParallel, OnFewMultiprocessors) {
  on(3, [](World& world) {
    for (const std::string& algorithm : algorithms()) {
      for (const int sms : {1, 7}) {
        check(world, world.team(), {.m = 601, .n = 130, .k = 19, .dtype = bf16, .bias = true},
              {.algorithm = algorithm, .sms = sms});
      }
    }
  });
}

TEST_P(RowParallel, EachRankMayHaveItsOwnShareOfInputs) {
  on(3, [](World& world) {
    check(world, world.team(), {.m = 31, .n = 10, .k = 19, .dtype = f16}, {.algorithm = "pipeline"}, 3, 5);
  });
}

TEST_P(RowParallel, AnyNumberOfGroups) {
  on(5, [](World& world) {
    for (const int groups : {1, 2, 3, 4, 5, 7, 8, 12, 16}) {
      if (groups > most_groups(kind(), {}, world.size())) break;
      for (const std::int64_t m : {61, 7, 160}) {
        check(world, world.team(), {.m = m, .n = 12, .k = 20}, {.algorithm = "pipeline", .groups = groups}, 6);
      }
    }
  });
}

TEST_P(RowParallel, SubTeamsInOddOrders) {
  on(5, [](World& world) {
    for (const std::vector<int>& ranks : {std::vector<int>{3, 0, 4}, {1, 2}, {4, 2, 0, 1}}) {
      const Team team = world.team(ranks);
      if (!team) continue;
      for (const std::string& algorithm : algorithms()) {
        for (const DType dtype : {f32, bf16, f16}) {
          check(world, team, {.m = 29, .n = 11, .k = 13, .dtype = dtype, .bias = true}, {.algorithm = algorithm}, 5);
        }
      }
    }
    world.team().barrier();
  });
}

const auto devices = ::testing::Values(DeviceType::host, DeviceType::cuda);
const auto name_of_device = [](const ::testing::TestParamInfo<RowParallel::ParamType>& info) {
  return std::string(name(std::get<DeviceType>(info.param)));
};
// The suite is instantiated twice, so that each kind of plan has a time limit of its own where ranks share a GPU.
INSTANTIATE_TEST_SUITE_P(LinearReduceScatter, RowParallel,
                         ::testing::Combine(::testing::Values(LinearKind::linear_reduce_scatter), devices),
                         name_of_device);
using AllReduceRounds = testing::OnEachDevice;
TANDEM_ON_EACH_DEVICE(AllReduceRounds);

TEST_P(AllReduceRounds, AreAddedUpOneByOneOrBesideEachOther) {
  for (const int ranks : {2, 3, 4, 5, 8}) {
    on(ranks, [](World& world) {
      const auto check = [&](const LinearSpec& spec, const LinearOptions& options, int runs) {
        check_plan<LinearAllReduce>(world, world.team(), spec, options, runs);
      };
      for (const char* algorithm : {"stepwise", "growing", "shrinking", "pipeline"}) {
        for (const int groups : {2, 3, 8}) {
          const LinearOptions options{.algorithm = algorithm, .groups = groups};
          check({.m = 83, .n = 36, .k = 13, .bias = true, .beta = 0.5F}, options, 4);
          check({.m = 7, .n = 5, .k = 3, .dtype = bf16, .activation = Activation::gelu_tanh}, options, 3);
          check({.m = 7, .n = 5, .k = 3}, options, 3);  // two ranks' own GEMMs add, also in rounds without rows
        }
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(LinearAllReduce, RowParallel,
                         ::testing::Combine(::testing::Values(LinearKind::linear_all_reduce), devices), name_of_device);

}  // namespace
}  // namespace tandem
