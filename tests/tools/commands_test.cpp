// SPDX-License-Identifier: Apache-2.0
// `tandem bench`, `verify` and `plan` as a user runs them.
#include <array>
#include <cstdio>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <sys/wait.h>

#include "tools/command.hpp"
#include "tools/operation.hpp"

namespace tandem::tools {
namespace {

struct Outcome {
  int code = -1;
  std::string out;
};

/// Runs `tandem ARGUMENTS` on the host; what it says on stderr goes to the test's own.
Outcome tandem_command(const std::string& arguments, const std::string& environment = "") {
  Outcome outcome;
  FILE* pipe = ::popen(
      ("env TANDEM_DEVICE=host TANDEM_TIMEOUT=60s " + environment + " timeout 120 " TANDEM_TEST_CLI " " + arguments)
          .c_str(),
      "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> part;
  for (std::size_t size = 0; (size = std::fread(part.data(), 1, part.size(), pipe)) > 0;) {
    outcome.out.append(part.data(), size);
  }
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Commands : public ::testing::TestWithParam<int> {
 protected:
  [[nodiscard]] static std::string ranks() { return " -n " + std::to_string(GetParam()); }
};

TEST_P(Commands, BenchMeasuresEveryCollective) {
  for (const std::string& operation : operation_names()) {
    if (is_linear(parse_operation(operation))) continue;
    const Outcome outcome =
        tandem_command("bench " + operation + ranks() + " -b 4 -e 4K -f 32 --iters 2 -w 1 --json -");
    ASSERT_EQ(outcome.code, success) << outcome.out;
    const auto document = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(document["ranks"], GetParam());
    EXPECT_EQ(document["wrong"], 0);
    ASSERT_EQ(document["rows"].size(), 3U);
    for (const auto& row : document["rows"]) {
      EXPECT_EQ(row["out_of_place_wrong"], 0);
      EXPECT_GT(row["out_of_place_time_us"].get<double>(), 0);
    }
  }
}

TEST_P(Commands, BenchMeasuresEveryAlgorithmInTheTensorsThatItTakes) {
  struct Row {
    const char* arguments;
    const char* tensors;
  };
  for (const Row& row : {Row{"all_gather --algorithm push", "into symmetric"},
                         {"all_gather --algorithm pull", "plain"},
                         {"reduce_scatter --algorithm direct", "from symmetric"},
                         {"reduce_scatter --algorithm staged", "plain"},
                         {"all_reduce --algorithm one_shot", "symmetric"},
                         {"all_reduce --algorithm two_shot", "symmetric"},
                         {"all_reduce --algorithm two_shot --plain", "plain"},
                         {"all_to_all", "into symmetric"},
                         {"all_to_all --algorithm push", "into symmetric"},
                         {"all_to_all --algorithm pull", "from symmetric"},
                         {"all_to_all --algorithm staged", "plain"},
                         {"all_to_all --plain", "plain"},
                         {"broadcast --algorithm push", "into symmetric"},
                         {"broadcast --algorithm pull", "into symmetric"},
                         {"broadcast --algorithm staged", "plain"}}) {
    const Outcome outcome = tandem_command("bench " + std::string(row.arguments) + ranks() +
                                           " -b 12 -e 12K -f 1024 --iters 2 -w 1 --json -");
    ASSERT_EQ(outcome.code, success) << row.arguments << outcome.out;
    const auto document = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(document["wrong"], 0) << row.arguments;
    EXPECT_EQ(document["out_of_place_tensors"], row.tensors) << row.arguments;
    for (const auto& size : document["rows"]) EXPECT_GT(size["out_of_place_time_us"].get<double>(), 0) << row.arguments;
  }
}

TEST_P(Commands, BenchMeasuresEveryLinearOperation) {
  for (const std::string& operation : operation_names()) {
    if (!is_linear(parse_operation(operation))) continue;
    const Outcome outcome = tandem_command("bench " + operation + ranks() +
                                           " --shape 33,17,29 --shape 4,4,4 --iters 2 -w 1 --link 5us,1GB/s --json -");
    ASSERT_EQ(outcome.code, success) << outcome.out;
    const auto document = nlohmann::json::parse(outcome.out);
    EXPECT_TRUE(contains(document["title"], "emulated link"));
    ASSERT_EQ(document["rows"].size(), 2U);
    for (const auto& row : document["rows"]) {
      EXPECT_EQ(row["wrong"], 0);
      for (const char* time : {"t_gemm_us", "t_comm_us", "t_seq_us", "t_overlap_us"}) {
        EXPECT_GT(row[time].get<double>(), 0) << time;
      }
    }
  }
}

TEST_P(Commands, VerifyPassesEveryOperation) {
  const Outcome outcome = tandem_command("verify all --cases 8 --delay" + ranks());
  EXPECT_EQ(outcome.code, success);
  EXPECT_TRUE(contains(outcome.out, "72 passed, 0 failed")) << outcome.out;
}

TEST_P(Commands, VerifyTellsAWrongElementAndHowToRepeatIt) {
  const std::string command = "verify all_reduce --seed 7 --case 3" + ranks();
  const Outcome outcome = tandem_command(command, "TANDEM_TEST_CORRUPT=1");
  EXPECT_EQ(outcome.code, failure);
  EXPECT_TRUE(contains(outcome.out, "0 passed, 1 failed")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "1 elements wrong")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "repeat: tandem verify all_reduce" + ranks() + " --seed 7 --case 3\n"))
      << outcome.out;
  EXPECT_EQ(tandem_command(command).code, success);
}

TEST_P(Commands, PlanSaysWhatWouldRun) {
  for (const std::string& operation : operation_names()) {
    const bool linear = is_linear(parse_operation(operation));
    const Outcome outcome =
        tandem_command("plan " + operation + ranks() + (linear ? " --shape 64,64,64" : " --size 64K") + " --json -");
    ASSERT_EQ(outcome.code, success) << outcome.out;
    const auto document = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(document["operation"], operation);
    EXPECT_TRUE(document.contains(linear ? "t_sequence_us" : "t_link_us"));
  }
}

TEST_P(Commands, BenchPrintsNoSpeedForWhatGoesWrongWhileItIsTimed) {
  const Outcome linear = tandem_command(
      "bench all_gather_linear" + ranks() + " --shape 33,17,29 --iters 2 -w 1 --json -", "TANDEM_TEST_CORRUPT=1");
  EXPECT_EQ(linear.code, failure);
  const auto row = nlohmann::json::parse(linear.out)["rows"][0];
  EXPECT_EQ(row["wrong"], 1);
  EXPECT_TRUE(row["t_overlap_us"].is_null());
  const Outcome collective =
      tandem_command("bench all_gather" + ranks() + " -b 4K -e 4K --iters 2 -w 1 --json -", "TANDEM_TEST_CORRUPT=1");
  EXPECT_EQ(collective.code, failure);
  const auto size = nlohmann::json::parse(collective.out)["rows"][0];
  EXPECT_EQ(size["out_of_place_wrong"], 1);
  EXPECT_TRUE(size["out_of_place_time_us"].is_null());
}

INSTANTIATE_TEST_SUITE_P(Ranks, Commands, ::testing::Values(1, 2, 3), ::testing::PrintToStringParamName());

TEST(CommandLine, BenchPrintsTheColumnsOfNcclTests) {
  const Outcome outcome = tandem_command("bench all_reduce -n 2 -b 1K -e 1K --iters 2");
  EXPECT_EQ(outcome.code, success);
  for (const char* part : {"algbw", "busbw", "#wrong", "redop", "out-of-place", "in-place", "# Avg bus bandwidth"}) {
    EXPECT_TRUE(contains(outcome.out, part)) << part << " is not in\n" << outcome.out;
  }
}

TEST(CommandLine, BenchSaysWhereItComparesASample) {
  const std::string command = "bench all_gather_linear -n 1 --iters 1 -w 0 --shape 8,8,8 ";
  const std::string sample = "# #wrong of large shapes is out of a sample: 64 x 64 elements of each rank's output\n";
  EXPECT_FALSE(contains(tandem_command(command).out, sample));
  EXPECT_TRUE(contains(tandem_command(command + "--shape 257,256,256").out, sample));
  const Outcome outcome = tandem_command(command + "--shape 257,256,256 --json -");
  const auto rows = nlohmann::json::parse(outcome.out)["rows"];
  EXPECT_EQ(rows[0]["checked"], "all");
  EXPECT_EQ(rows[1]["checked"], "sample");
}

TEST(CommandLine, EveryCommandHasHelpWithAnExample) {
  for (const std::string command : {"bench", "verify", "plan"}) {
    const Outcome outcome = tandem_command(command + " --help");
    EXPECT_EQ(outcome.code, success);
    EXPECT_TRUE(contains(outcome.out, "\n  tandem " + command + " ")) << outcome.out;
  }
}

TEST(CommandLine, WrongOnesExitWithTwo) {
  for (const char* wrong :
       {"", "dance", "bench", "bench all_reduce -b 1Q", "bench all_to_all --algorithm push --plain",
        "bench all_to_all --algorithm staged --symmetric", "verify gather", "plan all_gather_linear"}) {
    EXPECT_EQ(tandem_command(std::string(wrong) + " 2>/dev/null").code, bad_command_line) << wrong;
  }
}

}  // namespace
}  // namespace tandem::tools
