// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <string>

#include "tools/command.hpp"
#include "tools/support.hpp"

namespace tandem::tools {
namespace {

class VerifyOfRanks : public OfRanks {};

TEST_P(VerifyOfRanks, PassesEveryOperation) {
  const Outcome outcome = tandem_command("verify all --cases 8 --delay" + ranks());
  EXPECT_EQ(outcome.code, success);
  EXPECT_TRUE(outcome.out.starts_with("seed ")) << "of what may end amid a case: " << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "72 passed, 0 failed")) << outcome.out;
}

TEST_P(VerifyOfRanks, TellsAWrongElementAndHowToRepeatIt) {
  const std::string command = "verify all_reduce --seed 7 --case 3" + ranks();
  const Outcome outcome = tandem_command(command, "TANDEM_TEST_CORRUPT=1");
  EXPECT_EQ(outcome.code, failure);
  EXPECT_TRUE(contains(outcome.out, "0 passed, 1 failed")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "1 elements wrong")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "repeat: tandem verify all_reduce" + ranks() + " --seed 7 --case 3\n"))
      << outcome.out;
  EXPECT_EQ(tandem_command(command).code, success);
}

// Of this seed, no operation's first case has an empty result.
TEST_P(VerifyOfRanks, TellsAWrongElementOfEveryOperation) {
  const Outcome outcome = tandem_command("verify all --seed 1 --cases 1" + ranks(), "TANDEM_TEST_CORRUPT=1");
  EXPECT_EQ(outcome.code, failure);
  EXPECT_TRUE(contains(outcome.out, "0 passed, 9 failed")) << outcome.out;
}

INSTANTIATE_TEST_SUITE_P(Ranks, VerifyOfRanks, ::testing::Values(1, 2, 3), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace tandem::tools
