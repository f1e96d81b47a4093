// SPDX-License-Identifier: Apache-2.0
#include "language_model/reference.hpp"

#include <cmath>
#include <gtest/gtest.h>

#include "language_model/random.hpp"
#include "support/ranks.hpp"

namespace tandem::language_model {
namespace {

/// A step of a model so small that its derivatives can be checked by finite differences.
struct SmallStep {
  ModelOptions options{.tokens = 3, .context = 2, .embedding = 2, .hidden = 4, .width = 5, .layers = 2};
  std::vector<std::vector<float>> parameters;
  Tokens batch;

  explicit SmallStep(std::uint64_t seed) {
    const auto add = [&](std::int64_t count, double deviation) {
      std::vector<float>& values = parameters.emplace_back();
      for (std::int64_t i = 0; i < count; ++i) {
        values.push_back(static_cast<float>(
            deviation * random_normal(random_bits(seed, parameters.size()), static_cast<std::uint64_t>(i))));
      }
    };
    add(byte_values * options.embedding, 1);
    add(options.hidden * options.context * options.embedding, 0.5);
    add(byte_values * options.hidden, 0.5);
    for (std::int64_t layer = 0; layer < options.layers; ++layer) {
      add(options.width * options.hidden, 0.5);
      add(options.width, 0.3);
      add(options.hidden * options.width, 0.5);
      add(options.hidden, 0.3);
    }
    batch = Text("the quick brown fox", options.context).sample(seed, 0, {0, options.tokens});
  }
};

TEST(Reference, GradientsAreThoseOfFiniteDifferences) {
  const std::uint64_t seed = testing::seed();
  SmallStep small(seed);
  const ReferenceStep step = reference_step(small.options, small.parameters, small.batch);
  const auto slope_over = [&](float& parameter, float distance) {
    const float middle = parameter;
    const float high = parameter = middle + distance;
    const double above = reference_step(small.options, small.parameters, small.batch).loss.value[0];
    const float low = parameter = middle - distance;
    const double below = reference_step(small.options, small.parameters, small.batch).loss.value[0];
    parameter = middle;
    return (above - below) / (static_cast<double>(high) - static_cast<double>(low));
  };
  // The loss is fp64 but the parameters are f32, so the distance must be many units in their last place. The error from
  // the third derivative, large where a norm has small inputs, is a quarter at half the distance, so it can be removed.
  constexpr float distance = 0x1p-12F;
  ASSERT_EQ(step.gradients.size(), small.parameters.size());
  for (std::size_t p = 0; p < small.parameters.size(); ++p) {
    ASSERT_EQ(step.gradients[p].value.size(), small.parameters[p].size());
    for (std::size_t i = 0; i < small.parameters[p].size(); i += 1 + small.parameters[p].size() / 20) {
      float& parameter = small.parameters[p][i];
      const double slope = (4 * slope_over(parameter, distance / 2) - slope_over(parameter, distance)) / 3;
      EXPECT_NEAR(step.gradients[p].value[i], slope, 1e-5 + 1e-4 * std::abs(slope))
          << "parameter " << p << ", element " << i << ", seed " << seed;
    }
  }
}

TEST(Reference, BoundsGrowWithTheDtypesRoundoff) {
  SmallStep small(testing::seed());
  const ReferenceStep fine = reference_step(small.options, small.parameters, small.batch);
  small.options.dtype = bf16;
  const ReferenceStep coarse = reference_step(small.options, small.parameters, small.batch);
  EXPECT_GT(fine.loss.bound[0], 0);
  EXPECT_LT(fine.loss.bound[0], 1e-4);
  EXPECT_GT(coarse.loss.bound[0], 100 * fine.loss.bound[0]);
  EXPECT_EQ(coarse.loss.value[0], fine.loss.value[0]);
}

// One token whose context repeats a single byte, and a projection that is equal at every place of the context: all
// places have the same error, so the errors add up instead of averaging out.
TEST(Reference, ErrorsThatOneTokensPlacesShareAddUp) {
  const std::uint64_t seed = testing::seed();
  const ModelOptions options{.tokens = 1, .context = 64, .embedding = 16, .hidden = 32, .width = 8, .layers = 0};
  const auto places = static_cast<std::size_t>(options.context);
  const auto d = static_cast<std::size_t>(options.embedding);
  const auto hidden = static_cast<std::size_t>(options.hidden);
  const auto random = [seed](std::uint64_t key, std::size_t i) {
    return static_cast<float>(random_normal(random_bits(seed, key), i));
  };
  std::vector<std::vector<float>> parameters(3);
  for (std::size_t i = 0; i < byte_values * d; ++i) parameters[0].push_back(random(0, i));
  for (std::size_t i = 0; i < hidden * places * d; ++i) {
    parameters[1].push_back(random(1, i / (places * d) * d + i % d));
  }
  for (std::size_t i = 0; i < byte_values * hidden; ++i) parameters[2].push_back(0.1F * random(2, i));
  const Tokens batch = Text(std::string(places + 1, '-'), options.context).sample(seed, 0, {0, 1});

  const ReferenceStep step = reference_step(options, parameters, batch);
  const std::size_t row = '-' * d;
  for (std::size_t j = 0; j < d; ++j) {
    double squares = 0;
    for (std::size_t h = 0; h < hidden; ++h) {
      // A projection's gradient is dx · embedded, so the bound of dx follows from its bound.
      const double dx = step.gradients[1].bound[h * places * d + j] / std::abs(parameters[0][row + j]);
      squares += dx * dx * std::pow(parameters[1][h * places * d + j], 2);
    }
    EXPECT_GE(step.gradients[0].bound[row + j], 0.5 * static_cast<double>(places) * std::sqrt(squares))
        << "element " << j << ", seed " << seed;
  }
}

TEST(Reference, AnUntrainedHeadKnowsNothing) {
  SmallStep small(testing::seed());
  std::fill(small.parameters[2].begin(), small.parameters[2].end(), 0.0F);
  const ReferenceStep step = reference_step(small.options, small.parameters, small.batch);
  EXPECT_NEAR(step.loss.value[0], std::log(256.0), 1e-12);
}

}  // namespace
}  // namespace tandem::language_model
