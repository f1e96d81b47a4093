// SPDX-License-Identifier: Apache-2.0
// Ranks started by `tandem run` that are killed.

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "fault/leftovers.hpp"
#include "support/errors.hpp"
#include "support/processes.hpp"
#include "support/ranks.hpp"
#include "support/socket_names.hpp"

namespace tandem::fault {
namespace {

using testing::expect_says;

constexpr int launched_ranks = 4;

/// The text between `before`, at `from` or later, and `after`; empty if there is no `before`.
std::string between(const std::string& text, const std::string& before, const std::string& after,
                    std::size_t from = 0) {
  const std::size_t begin = text.find(before, from);
  if (begin == std::string::npos) return "";
  const std::size_t end = text.find(after, begin + before.size());
  return text.substr(begin + before.size(), end - begin - before.size());
}

void expect_survivors_to_go_on(const std::string& out, int victim) {
  const std::string process = between(out, "rank " + std::to_string(victim) + " is process ", " of job ");
  for (int rank = 0; rank < launched_ranks; ++rank) {
    const std::string self = "[" + std::to_string(rank) + "] rank " + std::to_string(rank);
    if (rank == victim) {
      EXPECT_EQ(out.find(self + " has lost"), std::string::npos) << out;
    } else {
      expect_says(out, {self + " has lost rank " + std::to_string(victim) + ", process " + process + "\n",
                        self + " goes on without it\n"});
    }
  }
}

void expect_nothing_left(const std::string& out) {
  const std::string job = between(out, " of job ", " with ");
  ASSERT_FALSE(job.empty()) << out;
  EXPECT_EQ(sockets_named(testing::socket_prefix(testing::hash_of_job(job))), std::vector<std::string>());
  for (int rank = 0; rank < launched_ranks; ++rank) {
    const std::string line = "rank " + std::to_string(rank) + " is process ";
    EXPECT_NE(between(out, " with ", " sockets", out.find(line)), "0") << "while it lives, a job has sockets";
    const int pid = std::atoi(between(out, line, " of job ").c_str());
    ASSERT_GT(pid, 0) << out;
    EXPECT_NE(::kill(pid, 0), 0) << "rank " << rank << " still lives, or is nobody's dead child";
  }
}

TEST(KillAmidTandemRun, TheOthersGoOnAndNothingIsLeft) {
  std::mt19937_64 random(testing::seed());
  const std::set<std::string> before = names_in_shared_memory();
  const int kills = static_cast<int>(std::ceil(12 * testing::stress_scale()));
  for (int kill = 0; kill < kills && !HasFailure(); ++kill) {
    const int victim = static_cast<int>(random() % launched_ranks);
    const auto delay = random() % 15'000;
    const int count = random() % 2 == 0 ? 100 : 100'000;
    const std::string program = std::string(TANDEM_LAUNCHED) + " " + std::to_string(victim) + " " +
                                std::to_string(delay) + " " + std::to_string(count);
    SCOPED_TRACE(program);
    const testing::Outcome outcome =
        testing::run_command("exec 2>&1; timeout 120 " TANDEM_COMMAND " run -n " + std::to_string(launched_ranks) +
                             " --on-failure continue --device host -- " + program);
    EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.out;
    expect_survivors_to_go_on(outcome.out, victim);
    expect_nothing_left(outcome.out);
  }
  EXPECT_EQ(left_in_shared_memory(before), std::set<std::string>());
}

}  // namespace
}  // namespace tandem::fault
