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

// More ranks than a kernel or a wait takes at once. (Sums are of at most 64.)
TEST(Verify, PassesSeventyRanks) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "70 processes would want gigabytes for what the sanitizer remembers";
#endif
  for (const std::string operation : {"all_gather", "all_to_all", "broadcast", "all_gather_linear"}) {
    const Outcome outcome =
        tandem_command("run -n 70 -- " TANDEM_TEST_CLI " verify " + operation + " --seed 3 --cases 2");
    EXPECT_EQ(outcome.code, success) << operation;
    EXPECT_TRUE(contains(outcome.out, "2 passed, 0 failed")) << operation << ": " << outcome.out;
  }
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
