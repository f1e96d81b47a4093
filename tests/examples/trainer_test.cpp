// SPDX-License-Identifier: Apache-2.0
#include "language_model/trainer.hpp"

#include <cmath>
#include <gtest/gtest.h>

#include "support/ranks.hpp"

namespace tandem::language_model {
namespace {

std::string rhyme() {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "one, two, buckle my shoe; three, four, knock at the door; ";
  return text;
}

TrainingOptions small_training() {
  return {.model = {.tokens = 64, .context = 16, .embedding = 8, .hidden = 32, .width = 64, .layers = 1},
          .steps = 60,
          .learning_rate = 1e-2F};
}

TEST(Trainer, LearnsARhymeByHeart) {
  for (const int ranks : {1, 3}) {
    testing::run_ranks(ranks, [](World& world) {
      const Text text(rhyme(), 16);
      Trainer trainer(world.team(), text, small_training());
      const double first = trainer.step();
      EXPECT_NEAR(first, std::log(256.0), 1.5);
      double last = first;
      while (trainer.steps() < 60) last = trainer.step();
      EXPECT_LT(last, 0.3);
      const std::string written = trainer.write("one, two, buckle", 20, 0.1);
      if (world.rank() == 0) {
        EXPECT_EQ(written, " my shoe; three, fou");
      } else {
        EXPECT_EQ(written, "");
      }
    });
  }
}

// Sums over ranks have another order than sums on one rank; nothing else may differ.
TEST(Trainer, AnyNumberOfRanksLearnsTheSame) {
  std::vector<double> losses;
  for (const int ranks : {1, 2, 4}) {
    testing::run_ranks(ranks,
                       [&losses, ranks](World& world) {
                         const Text text(rhyme(), 16);
                         Trainer trainer(world.team(), text, small_training());
                         std::vector<double> mine;
                         while (trainer.steps() < 5) mine.push_back(trainer.step());
                         if (world.rank() != 0) return;
                         if (ranks == 1) losses = mine;
                         ASSERT_EQ(losses.size(), mine.size());
                         for (std::size_t i = 0; i < mine.size(); ++i) EXPECT_NEAR(mine[i], losses[i], 1e-4);
                       },
                       {.kind = testing::RankKind::threads});
  }
}

// With the same number of ranks, losses are bitwise reproducible.
TEST(Trainer, RepeatsItself) {
  testing::run_ranks(3, [](World& world) {
    const Text text(rhyme(), 16);
    std::vector<double> losses;
    for (int run = 0; run < 2; ++run) {
      Trainer trainer(world.team(), text, small_training());
      std::vector<double> mine;
      while (trainer.steps() < 5) mine.push_back(trainer.step());
      if (run == 0) losses = mine;
      EXPECT_EQ(losses, mine);
    }
  });
}

}  // namespace
}  // namespace tandem::language_model
