// SPDX-License-Identifier: Apache-2.0
#include "tools/provenance.hpp"

#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "support/temporary_folder.hpp"
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
  const testing::TemporaryFolder folder;
  const std::string path = folder.at("plans");
  EXPECT_EQ(plan_cache(path), path + ": 0 tuned plans and products");
  std::ofstream(path) << "nonsense\n";
  EXPECT_TRUE(plan_cache(path).starts_with(path + " is ignored: ")) << plan_cache(path);
}

TEST(Provenance, TheVersionOfThisCommandLineHasItsCommit) {
  EXPECT_EQ(tandem_command("--version").out, "tandem " + build() + "\n");
}

}  // namespace
}  // namespace tandem::tools
