// SPDX-License-Identifier: Apache-2.0
#include "language_model/text.hpp"

#include <gtest/gtest.h>

#include "tandem/base/error.hpp"

namespace tandem::language_model {
namespace {

TEST(Text, TargetsFollowTheirContexts) {
  const Text text("0123456789", 4);
  const Tokens tokens = text.sample(7, 3, {0, 50});
  ASSERT_EQ(tokens.contexts.size(), 200U);
  ASSERT_EQ(tokens.targets.size(), 50U);
  for (std::size_t row = 0; row < 50; ++row) {
    for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(tokens.contexts[4 * row + i], tokens.contexts[4 * row] + i);
    EXPECT_EQ(tokens.targets[row], tokens.contexts[4 * row + 3] + 1);
  }
}

TEST(Text, ABatchIsTheSameHoweverManyRanksShareIt) {
  const Text text("to be, or not to be, that is the question", 8);
  const Tokens whole = text.sample(1, 2, {0, 11});
  for (const int ranks : {2, 3, 4, 16}) {
    Tokens parts;
    for (int rank = 0; rank < ranks; ++rank) {
      const Tokens part = text.sample(1, 2, shard_of(11, ranks, rank));
      parts.contexts.insert(parts.contexts.end(), part.contexts.begin(), part.contexts.end());
      parts.targets.insert(parts.targets.end(), part.targets.begin(), part.targets.end());
    }
    EXPECT_EQ(parts.contexts, whole.contexts);
    EXPECT_EQ(parts.targets, whole.targets);
  }
  EXPECT_NE(text.sample(1, 3, {0, 11}).contexts, whole.contexts);
  EXPECT_NE(text.sample(2, 2, {0, 11}).contexts, whole.contexts);
}

TEST(Text, MustBeLongerThanAContext) {
  EXPECT_NO_THROW(Text("123456789", 8).sample(1, 1, {0, 3}));
  EXPECT_THROW(Text("12345678", 8), InvalidArgument);
  EXPECT_THROW(Text("", 8), InvalidArgument);
}

}  // namespace
}  // namespace tandem::language_model
