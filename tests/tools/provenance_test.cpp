// SPDX-License-Identifier: Apache-2.0
#include "tools/provenance.hpp"

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tools/support.hpp"

namespace tandem::tools {
namespace {

TEST(Provenance, CommandsCanBeTypedAgain) {
  const std::vector<std::string> words{"all_gather_linear", "--shape", "8,8,8", "--json", "a b/it's.json", "", "$HOME"};
  EXPECT_EQ(provenance("bench", words, Env())["command"],
            "tandem bench all_gather_linear --shape 8,8,8 --json 'a b/it'\\''s.json' '' '$HOME'");
}

TEST(Provenance, APlanCacheIsToldWithItsTrouble) {
  EXPECT_EQ(plan_cache(""), "none: plans run what the cost model chooses");
  EXPECT_TRUE(contains(plan_cache("/dev/null/plans"), "/dev/null/plans")) << plan_cache("/dev/null/plans");
}

TEST(Provenance, TheVersionOfThisCommandLineHasItsCommit) {
  EXPECT_EQ(tandem_command("--version").out, "tandem " + build() + "\n");
}

}  // namespace
}  // namespace tandem::tools
