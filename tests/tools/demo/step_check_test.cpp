// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/step_check.hpp"

#include <cstddef>
#include <gtest/gtest.h>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "support/ranks.hpp"

namespace tandem::tools {
namespace {

StepCheck good() {
  return {.step = 7,
          .loss = 5.54521,
          .reference_loss = 5.54519,
          .loss_share = 0.2,
          .gradient_share = 0.314,
          .worst_gradient = "block0.up.weight"};
}

TEST(StepCheck, SaysWhatWasCompared) {
  EXPECT_TRUE(good().passed());
  EXPECT_EQ(to_string(good()),
            "check step 7: loss 5.5452 vs 5.5452, worst gradient 0.31 of its bound (block0.up.weight): ok");
}

TEST(StepCheck, FailsAboveABoundAndWithoutANumber) {
  for (const double bad : {1.01, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    StepCheck check = good();
    check.loss_share = bad;
    EXPECT_FALSE(check.passed()) << bad;
    check = good();
    check.gradient_share = bad;
    EXPECT_FALSE(check.passed()) << bad;
    EXPECT_TRUE(to_string(check).ends_with("WRONG"));
  }
}

language_model::TrainingOptions small_training() {
  return {.model = {.tokens = 10, .context = 8, .embedding = 4, .hidden = 12, .width = 20, .layers = 1}, .steps = 4};
}

TEST(StepCheck, IsTheSameOnEveryRank) {
  testing::run_ranks(3, [](World& world) {
    const language_model::Text text("a step of every rank, and the same step of one rank alone", 8);
    language_model::Trainer trainer(world.team(), text, small_training());
    for (std::int64_t step = 1; step <= 3; ++step) {
      const StepCheck check = checked_step(trainer);
      EXPECT_EQ(check.step, step);
      EXPECT_TRUE(check.passed()) << to_string(check);
      EXPECT_GT(check.gradient_share, 0);
      const std::string mine = to_string(check);
      const std::span<const std::byte> text_of_mine = std::as_bytes(std::span(mine));
      const std::vector<std::byte> bytes(text_of_mine.begin(), text_of_mine.end());
      for (const Parcel& theirs : world.team().exchange("the check", {.bytes = bytes, .descriptors = {}})) {
        EXPECT_EQ(theirs.bytes, bytes) << mine;
      }
    }
  });
}

// Rank 1 trains on a different text than rank 0, which repeats the step with its own batch.
TEST(StepCheck, SeesABatchThatIsNotTheOneThatWasTrained) {
  testing::run_ranks(2, [](World& world) {
    const std::string bytes = "a step of every rank, and the same step of one rank alone";
    const std::string other = world.rank() == 1 ? std::string(bytes.rbegin(), bytes.rend()) : bytes;
    const language_model::Text text(other, 8);
    language_model::Trainer trainer(world.team(), text, small_training());
    const StepCheck check = checked_step(trainer);
    EXPECT_FALSE(check.passed()) << to_string(check);
  });
}

}  // namespace
}  // namespace tandem::tools
