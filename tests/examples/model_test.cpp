// SPDX-License-Identifier: Apache-2.0
#include "language_model/model.hpp"

#include <cmath>
#include <gtest/gtest.h>

#include "tandem/base/error.hpp"

#include "language_model/reference.hpp"
#include "language_model/scalars.hpp"
#include "support/devices.hpp"
#include "support/ranks.hpp"

namespace tandem::language_model {
namespace {

const std::string& sample_text() {
  static const std::string text = [] {
    std::string bytes;
    for (int i = 0; i < 4000; ++i) bytes += static_cast<char>(33 + (i * i / 7 + i) % 90);
    return bytes;
  }();
  return text;
}

/// Compares one step on `world`'s ranks with the reference, on rank 0.
void check_step(World& world, const ModelOptions& options, std::int64_t tokens) {
  const Team& team = world.team();
  const Text text(sample_text(), options.context);
  const Tokens mine = text.sample(options.seed, 0, shard_of(tokens, team.size(), team.rank()));
  const auto rows = static_cast<std::int64_t>(mine.targets.size());
  const Tensor contexts(team.shared_device(), {rows, options.context}, u8);
  const Tensor targets(team.shared_device(), {rows}, u8);
  world.device().upload(contexts.view().data(), mine.contexts.data(), mine.contexts.size());
  world.device().upload(targets.view().data(), mine.targets.data(), mine.targets.size());

  Model model(team, options);
  const Stream stream(world.device());
  model.parameters().refresh(stream);
  for (const ParameterSlab& slab : model.parameters().slabs()) {  // NaNs, to detect what is not written
    world.device().fill(stream, slab.gradient.data(), std::byte{0xff}, slab.gradient.bytes());
  }
  model.forward(contexts.view(), tokens, stream);
  model.backward(contexts.view(), targets.view(), tokens, stream);
  team.synchronize(stream);

  float loss = 0;
  world.device().download(&loss, model.loss().data(), sizeof(loss));
  const auto values = gather_full(model.parameters(), ParameterPart::value);
  const auto gradients = gather_full(model.parameters(), ParameterPart::gradient);
  if (team.rank() != 0) return;
  const ReferenceStep reference = reference_step(options, values, text.sample(options.seed, 0, {0, tokens}));
  EXPECT_NEAR(static_cast<double>(loss), reference.loss.value[0], reference.loss.bound[0]);
  ASSERT_EQ(gradients.size(), reference.gradients.size());
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    const ReferenceTensor& wanted = reference.gradients[p];
    ASSERT_EQ(gradients[p].size(), wanted.value.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < wanted.value.size(); ++i) {
      if (!(std::abs(static_cast<double>(gradients[p][i]) - wanted.value[i]) <= wanted.bound[i])) ++wrong;
    }
    EXPECT_EQ(wrong, 0U) << model.parameters().all()[p].name << ", seed " << options.seed;
  }
}

ModelOptions odd_model(DType dtype) {
  return {.tokens = 29,
          .context = 5,
          .embedding = 3,
          .hidden = 22,
          .width = 37,
          .layers = 2,
          .dtype = dtype,
          .seed = testing::seed()};
}

using ModelStep = testing::OnEachDevice;
TANDEM_ON_EACH_DEVICE(ModelStep);

TEST_P(ModelStep, IsThatOfOneRankInF32) {
  for (const int ranks : {1, 2, 3, 4}) {
    on(ranks, [](World& world) { check_step(world, odd_model(f32), 29); });
  }
}

TEST_P(ModelStep, IsThatOfOneRankInBf16) {
  for (const int ranks : {1, 2, 3, 4}) {
    on(ranks, [](World& world) { check_step(world, odd_model(bf16), 29); });
  }
}

TEST_P(ModelStep, IsThatOfOneRankInF16) {
  for (const int ranks : {2, 3}) {
    on(ranks, [](World& world) { check_step(world, odd_model(f16), 29); });
  }
}

// Five ranks share 6 tokens: 2, 2, 2, 0, 0.
TEST_P(ModelStep, LetsRanksHaveNoTokens) {
  const auto six = [](World& world) {
    ModelOptions options = odd_model(f32);
    options.tokens = 6;
    check_step(world, options, 6);
  };
  on(5, six);
}

TEST_P(ModelStep, TakesFewerTokensThanPlanned) {
  const auto fewer = [](World& world) {
    check_step(world, odd_model(f32), 1);
    check_step(world, odd_model(f32), 20);
  };
  on(3, fewer);
}

// The reference's bounds must be tight enough to detect a small error of one weight.
TEST(Model, TheReferenceSeesOneWrongWeight) {
  testing::run_ranks(2, [](World& world) {
    const ModelOptions options = odd_model(f32);
    Model model(world.team(), options);
    auto values = gather_full(model.parameters(), ParameterPart::value);
    const Text text(sample_text(), options.context);
    const Tokens batch = text.sample(options.seed, 0, {0, options.tokens});
    const ReferenceStep right = reference_step(options, values, batch);
    values[3][5] += 1e-3F;
    const ReferenceStep wrong = reference_step(options, values, batch);
    double worst = 0;
    for (std::size_t i = 0; i < right.gradients[3].value.size(); ++i) {
      const double error = std::abs(wrong.gradients[3].value[i] - right.gradients[3].value[i]);
      worst = std::max(worst, error / right.gradients[3].bound[i]);
    }
    EXPECT_GT(worst, 1);
  });
}

}  // namespace
}  // namespace tandem::language_model
