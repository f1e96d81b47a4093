// SPDX-License-Identifier: Apache-2.0
#include "tools/cores.hpp"

#include <algorithm>
#include <cstddef>
#include <gtest/gtest.h>
#include <map>
#include <sched.h>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/processes.hpp"
#include "tools/command.hpp"

namespace tandem::tools {
namespace {

std::set<std::size_t> cores_in(const cpu_set_t& set) {
  std::set<std::size_t> cores;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cores.insert(cpu);
  }
  return cores;
}

std::set<std::size_t> usable_cores() {
  cpu_set_t allowed;
  EXPECT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  return cores_in(allowed);
}

/// How many ranks have each core in their share.
std::map<std::size_t, int> ranks_on(const std::vector<cpu_set_t>& shares) {
  std::map<std::size_t, int> ranks;
  for (const cpu_set_t& share : shares) {
    for (const std::size_t core : cores_in(share)) ++ranks[core];
  }
  return ranks;
}

TEST(Cores, AreDividedAmongFewerRanksWithoutRest) {
  const std::set<std::size_t> usable = usable_cores();
  for (int ranks = 1; ranks <= static_cast<int>(usable.size()); ++ranks) {
    const std::vector<cpu_set_t> shares = divide_cores(ranks);
    ASSERT_EQ(shares.size(), static_cast<std::size_t>(ranks));
    std::size_t fewest = usable.size();
    std::size_t most = 0;
    for (const cpu_set_t& share : shares) {
      fewest = std::min(fewest, cores_in(share).size());
      most = std::max(most, cores_in(share).size());
    }
    EXPECT_GE(fewest, 1U);
    EXPECT_LE(most, fewest + 1);
    const std::map<std::size_t, int> on = ranks_on(shares);
    EXPECT_EQ(on.size(), usable.size()) << "of " << ranks << " ranks";
    for (const auto& [core, count] : on) {
      EXPECT_TRUE(usable.contains(core)) << core;
      EXPECT_EQ(count, 1) << "core " << core << " of " << ranks << " ranks";
    }
  }
}

TEST(Cores, AreSharedByAsManyRanksEachOrNotDivided) {
  const std::set<std::size_t> usable = usable_cores();
  const auto cores = static_cast<int>(usable.size());
  for (const int times : {2, 3}) {
    const std::vector<cpu_set_t> shares = divide_cores(times * cores);
    ASSERT_EQ(shares.size(), static_cast<std::size_t>(times * cores));
    for (const cpu_set_t& share : shares) EXPECT_EQ(cores_in(share).size(), 1U);
    const std::map<std::size_t, int> on = ranks_on(shares);
    EXPECT_EQ(on.size(), usable.size());
    for (const auto& [core, count] : on) EXPECT_EQ(count, times) << "core " << core;
    if (cores > 1) {
      EXPECT_TRUE(divide_cores(times * cores + 1).empty());
      EXPECT_TRUE(divide_cores(times * cores - 1).empty());
    }
  }
}

/// How many of the ranks that `tandem run ARGUMENTS` starts may use each core.
std::map<std::size_t, int> ranks_of_run(const std::string& arguments) {
  const testing::Outcome outcome = testing::run_command("timeout 60 " TANDEM_TEST_CLI " run --no-prefix " + arguments +
                                                        " -- grep Cpus_allowed_list /proc/self/status");
  EXPECT_EQ(outcome.code, success) << outcome.out;
  std::map<std::size_t, int> ranks;
  std::istringstream lines(outcome.out);
  for (std::string word; lines >> word;) {
    if (word == "Cpus_allowed_list:") continue;
    std::istringstream list(word);
    for (std::string range; std::getline(list, range, ',');) {
      const std::size_t first = std::stoul(range);
      const std::size_t dash = range.find('-');
      const std::size_t last = dash == std::string::npos ? first : std::stoul(range.substr(dash + 1));
      for (std::size_t core = first; core <= last; ++core) ++ranks[core];
    }
  }
  return ranks;
}

TEST(Cores, OfARunAreTheRanksOwnIfAsked) {
  const auto cores = static_cast<int>(usable_cores().size());
  const int ranks = 2 * cores;
  for (const auto& [core, count] : ranks_of_run("-n " + std::to_string(ranks) + " --bind core")) {
    EXPECT_EQ(count, 2) << "core " << core;
  }
  const std::map<std::size_t, int> unbound = ranks_of_run("-n 2");
  EXPECT_EQ(unbound.size(), static_cast<std::size_t>(cores));
  for (const auto& [core, count] : unbound) EXPECT_EQ(count, 2) << "core " << core;
}

TEST(Cores, ThatDoNotDivideOrAreNotOursToGiveAreErrors) {
  const auto cores = static_cast<int>(usable_cores().size());
  const auto said = [](const std::string& arguments) {
    const testing::Outcome outcome = testing::run_command("timeout 60 " TANDEM_TEST_CLI " " + arguments + " 2>&1");
    EXPECT_NE(outcome.code, success);
    return outcome.out;
  };
  if (cores > 1) {
    const std::string ranks = std::to_string(cores + 1);
    EXPECT_NE(said("run -n " + ranks + " --bind core -- true").find(ranks + " ranks do not divide over the CPUs"),
              std::string::npos);
  }
  EXPECT_NE(said("run -n 2 --bind socket -- true").find("allowed: none, core"), std::string::npos);
  EXPECT_NE(said("run -n 1 -- " TANDEM_TEST_CLI " bench all_gather --device host --bind core")
                .find("these were started by tandem run"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem::tools
