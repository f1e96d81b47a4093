// SPDX-License-Identifier: Apache-2.0
#include "language_model/parameters.hpp"

#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <mutex>

#include "tandem/base/error.hpp"

#include "language_model/random.hpp"
#include "support/ranks.hpp"

namespace tandem::language_model {
namespace {

void add_some(Parameters& parameters) {
  static_cast<void>(parameters.add("whole", {7, 5}, Split::none, 1));
  static_cast<void>(parameters.add("rows", {11, 3}, Split::rows, 2));
  static_cast<void>(parameters.add("columns", {4, 13}, Split::columns, 0.5));
  static_cast<void>(parameters.add("vector", {10}, Split::rows, 1));
}

TEST(Parameters, FreshValuesDoNotDependOnTheNumberOfRanks) {
  const std::uint64_t seed = testing::seed();
  for (const int ranks : {1, 2, 3, 4, 5}) {
    testing::run_ranks(ranks, [seed](World& world) {
      Parameters parameters(world.team(), f32);
      add_some(parameters);
      parameters.allocate(seed);
      const auto full = gather_full(parameters, ParameterPart::value);
      const std::array<double, 4> deviations{1, 2, 0.5, 1};
      for (std::size_t p = 0; p < full.size(); ++p) {
        for (std::size_t i = 0; i < full[p].size(); ++i) {
          ASSERT_EQ(full[p][i], static_cast<float>(deviations[p] * random_normal(random_bits(seed, p), i)));
        }
      }
    });
  }
}

TEST(Parameters, SumsWhatEveryRankHasWholeAndNothingElse) {
  for (const int ranks : {1, 2, 3, 4}) {
    testing::run_ranks(ranks, [ranks](World& world) {
      Parameters parameters(world.team(), bf16);
      add_some(parameters);
      parameters.allocate(1);
      const float mine = 1.0F + static_cast<float>(world.rank());
      for (const Parameter& parameter : parameters.all()) {
        const std::vector<float> values(static_cast<std::size_t>(parameter.gradient.numel()), mine);
        world.device().upload(parameter.gradient.data(), values.data(), parameter.gradient.bytes());
      }
      world.device().upload(parameters.loss().data(), &mine, sizeof(mine));
      const Stream stream(world.device());
      parameters.sum_over_ranks(stream);
      world.team().synchronize(stream);

      const float sum = static_cast<float>(ranks * (ranks + 1)) / 2;
      float loss = 0;
      world.device().download(&loss, parameters.loss().data(), sizeof(loss));
      EXPECT_EQ(loss, sum);
      for (const Parameter& parameter : parameters.all()) {
        std::vector<float> values(static_cast<std::size_t>(parameter.gradient.numel()));
        world.device().download(values.data(), parameter.gradient.data(), parameter.gradient.bytes());
        for (const float value : values) ASSERT_EQ(value, parameter.split == Split::none ? sum : mine);
      }
    });
  }
}

TEST(Parameters, GatherSaysWhereRanksDiffer) {
  testing::run_ranks(3, [](World& world) {
    Parameters parameters(world.team(), f32);
    add_some(parameters);
    parameters.allocate(1);
    if (world.rank() == 2) {
      const float other = 1000;
      world.device().upload(parameters.all()[0].master.data(), &other, sizeof(other));
    }
    try {
      static_cast<void>(gather_full(parameters, ParameterPart::value));
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "ranks 0 and 2 differ in whole, which each has whole");
    }
  });
}

}  // namespace
}  // namespace tandem::language_model
