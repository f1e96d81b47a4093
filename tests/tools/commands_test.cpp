// SPDX-License-Identifier: Apache-2.0
// The commands as a user runs them; `demo` has tests of its own.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tandem/device/device.hpp"

#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/processes.hpp"
#include "tools/command.hpp"
#include "tools/operation.hpp"

namespace tandem::tools {
namespace {

using testing::Outcome;

/// Runs `tandem ARGUMENTS` on the host; what it says on stderr goes to the test's own.
Outcome tandem_command(const std::string& arguments, const std::string& environment = "") {
  return testing::run_command("env TANDEM_DEVICE=host TANDEM_TIMEOUT=60s TANDEM_PLAN_CACHE=none " + environment +
                              " timeout 120 " TANDEM_TEST_CLI " " + arguments);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Commands : public ::testing::TestWithParam<int> {
 protected:
  [[nodiscard]] static std::string ranks() { return " -n " + std::to_string(GetParam()); }
};

class CommandsOfSeveralRanks : public Commands {};

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

TEST_P(Commands, LinearOperationsMayRoundToTf32) {
  const std::string work = " linear_all_reduce" + ranks() + " --device host --shape 33,17,29 --tf32 --json -";
  const Outcome measured = tandem_command("bench --iters 2" + work);
  ASSERT_EQ(measured.code, success) << measured.out;
  EXPECT_EQ(nlohmann::json::parse(measured.out)["rows"][0]["type"], "tf32") << measured.out;
  const Outcome planned = tandem_command("plan" + work);
  ASSERT_EQ(planned.code, success) << planned.out;
  EXPECT_EQ(nlohmann::json::parse(planned.out)["type"], "tf32") << planned.out;
}

TEST_P(Commands, BenchMeasuresEveryLayoutAndEpilogueOfALinearLayer) {
  for (const std::string operation : {"all_gather_linear", "linear_reduce_scatter", "linear_all_reduce"}) {
    std::vector<std::string> epilogues{"", " --bias --activation gelu_tanh"};
    if (operation == "all_gather_linear") {
      epilogues = {"", " --bias --activation gelu_erf --auxiliary output",
                   " --activation gelu_tanh --auxiliary gradient"};
    }
    for (const std::string layout : {"NT", "NN", "TT", "TN"}) {
      for (const std::string& epilogue : epilogues) {
        const std::string form = " --layout " + layout + epilogue;
        const Outcome outcome =
            tandem_command("bench " + operation + ranks() + form + " --shape 33,17,29 --iters 1 -w 0 --json -");
        ASSERT_EQ(outcome.code, success) << operation << form << outcome.out;
        const auto document = nlohmann::json::parse(outcome.out);
        EXPECT_EQ(document["layout"], layout);
        EXPECT_EQ(document["bias"], contains(form, "--bias"));
        EXPECT_EQ(document["wrong"], 0) << operation << form;
        EXPECT_GT(document["rows"][0]["t_overlap_us"].get<double>(), 0) << operation << form;
      }
    }
  }
}

TEST_P(Commands, BenchMeasuresAWeightGradientThatGathersEitherOperand) {
  for (const std::string gathered : {"x", "dy"}) {
    const Outcome outcome = tandem_command("bench linear_weight_gradient" + ranks() + " --gathered " + gathered +
                                           " --shape 33,17,29 --iters 1 -w 0 --json -");
    ASSERT_EQ(outcome.code, success) << outcome.out;
    const auto document = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(document["gathered"], gathered);
    EXPECT_EQ(document["wrong"], 0);
    EXPECT_GT(document["rows"][0]["t_overlap_us"].get<double>(), 0);
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
    EXPECT_TRUE(document.contains(linear ? "t_sequence_us" : "predicted"));
  }
}

TEST_P(CommandsOfSeveralRanks, TuneKeepsWhatPlansThenRun) {
  const std::string cache = ::testing::TempDir() + "tuned" + std::to_string(GetParam());
  std::filesystem::remove(cache);
  for (const std::string& operation : operation_names()) {
    if (!is_linear(parse_operation(operation))) continue;
    std::string what = operation + ranks();
    what += " --shape 33,17,29 --link 5us,1GB/s --json - ";
    const Outcome outcome = tandem_command("tune " + what + "--seconds 1 --cache " + cache);
    ASSERT_EQ(outcome.code, success) << outcome.out;
    const auto document = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(document["wrong"], 0);
    EXPECT_EQ(document["plan_cache"], cache);
    EXPECT_EQ(document["rows"][0]["to_model"], 1.0);
    for (const auto& row : document["rows"]) EXPECT_GT(row["time_us"].get<double>(), 0);
    const std::string environment = "TANDEM_PLAN_CACHE=" + cache;
    const auto tuned = nlohmann::json::parse(tandem_command("plan " + what, environment).out);
    EXPECT_TRUE(contains(tuned["why"], "tuned")) << tuned;
    const auto run = nlohmann::json::parse(tandem_command("bench --iters 2 -w 1 " + what, environment).out)["rows"][0];
    EXPECT_EQ(run["why"], tuned["why"]);
    EXPECT_EQ(run["algorithm"], tuned["algorithm"]);
    EXPECT_EQ(run["groups"], tuned["groups"]);
    EXPECT_FALSE(contains(tandem_command("plan " + what).out, "tuned"));
  }
  EXPECT_EQ(nlohmann::json::parse(tandem_command("info --json", "TANDEM_PLAN_CACHE=" + cache).out)["plan_cache"],
            cache + ": 4 tuned plans and products");
}

TEST_P(CommandsOfSeveralRanks, WhatTuneKeepsIsOfOneLayoutAndOfEpiloguesThatChangeNoWay) {
  struct Row {
    const char* operation;
    const char* tuned;
    const char* other;
    const char* shape = " --shape 33,17,29";
    const char* same = "";
    const char* same_shape = " --shape 33,17,29";
  };
  for (const Row& row :
       {Row{"all_gather_linear", " --layout NN", " --layout NT"}, Row{"linear_reduce_scatter", "", " --layout TT"},
        Row{"linear_all_reduce", " --layout TN", ""},
        // What travels counts, not whether it is called x or dy.
        Row{"linear_weight_gradient", " --gathered dy", "", " --shape 33,17,30", "", " --shape 33,30,17"}}) {
    const std::string cache = ::testing::TempDir() + "layout" + std::to_string(GetParam());
    std::filesystem::remove(cache);
    const auto plan = [&](const std::string& arguments) {
      const Outcome outcome = tandem_command(
          "plan " + (row.operation + ranks()) + arguments + " --link 5us,1GB/s --json -", "TANDEM_PLAN_CACHE=" + cache);
      return nlohmann::json::parse(outcome.out);
    };
    const Outcome outcome = tandem_command("tune " + (row.operation + ranks()) + row.tuned + row.shape +
                                           " --link 5us,1GB/s --seconds 1 --json - --cache " + cache);
    ASSERT_EQ(outcome.code, success) << outcome.out;
    const std::string tuned = std::string(row.tuned) + row.shape;
    EXPECT_TRUE(contains(plan(tuned)["why"], "tuned")) << row.operation;
    EXPECT_FALSE(contains(plan(std::string(row.other) + row.shape)["why"], "tuned")) << row.operation;
    if (contains(row.operation, "gradient")) {
      EXPECT_TRUE(contains(plan(row.same_shape)["why"], "tuned"));
      EXPECT_TRUE(contains(plan(tuned)["spec"], "dy gathered"));
    } else {
      EXPECT_TRUE(contains(plan(tuned + " --bias")["why"], "tuned")) << row.operation;
      // Two ranks add up in another way what is activated.
      const bool other_way = GetParam() == 2 && std::string(row.operation) != "all_gather_linear";
      EXPECT_EQ(contains(plan(tuned + " --activation gelu_erf")["why"], "tuned"), !other_way) << row.operation;
    }
  }
}

TEST_P(CommandsOfSeveralRanks, TuneKeepsNothingThatIsWrong) {
  const std::string cache = ::testing::TempDir() + "wrong" + std::to_string(GetParam());
  std::filesystem::remove(cache);
  const Outcome outcome =
      tandem_command("tune all_gather_linear" + ranks() + " --shape 8,8,8 --seconds 1 --json - --cache " + cache,
                     "TANDEM_TEST_CORRUPT=1");
  EXPECT_EQ(outcome.code, failure);
  const auto rows = nlohmann::json::parse(outcome.out)["rows"];
  EXPECT_EQ(rows[0]["wrong"], 1);
  EXPECT_TRUE(rows[0]["time_us"].is_null());
  EXPECT_EQ(rows[1]["wrong"], 0);
  EXPECT_FALSE(std::filesystem::exists(cache));
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
  for (const std::string form : {"out_of_place", "in_place"}) {
    EXPECT_EQ(size[form + "_wrong"], 1) << form;
    EXPECT_TRUE(size[form + "_time_us"].is_null()) << form;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Commands, ::testing::Values(1, 2, 3), ::testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Ranks, CommandsOfSeveralRanks, ::testing::Values(2, 3), ::testing::PrintToStringParamName());

TEST(CommandLine, PlanPredictsCollectivesByAlgorithm) {
  struct Row {
    const char* operation;
    std::vector<std::string> algorithms;  // for symmetric tensors, and for plain ones where both are taken
    double carried;                       // by the link of one of four ranks, in sizes
    int rounds;
    int kib = 1024;
  };
  // Where ranks may read each other's memory, large plain tensors are read where they are; unless that takes too long,
  // as each command measures for itself.
  const std::string fetch_or = "fetch or ";
  const auto large = [&](const char* otherwise) { return fetch_or + otherwise; };
  for (const Row& row : {Row{"all_gather", {"push", large("pull")}, 0.75, 1},
                         {"all_gather --algorithm pull", {"pull"}, 0.75, 1},
                         {"reduce_scatter", {"direct", large("staged")}, 0.75, 1},
                         {"all_reduce", {"two_shot", large("two_shot")}, 1.5, 2},
                         {"all_reduce --algorithm one_shot", {"one_shot", "one_shot"}, 3, 1},
                         {"all_to_all", {"push", large("staged")}, 0.75, 1},
                         {"broadcast --algorithm push", {"push"}, 3, 1},
                         {"broadcast --algorithm pull", {"pull"}, 1, 1},
                         // small ones through staging memory, whatever the tensors
                         {"all_gather", {"pull", "pull"}, 0.75, 1, 4},
                         {"reduce_scatter", {"staged", "staged"}, 0.75, 1, 8},
                         {"all_reduce", {"one_shot", "one_shot"}, 3, 1, 4},
                         // the smallest by mail
                         {"all_gather", {"mail", "mail"}, 0.75, 1, 1},
                         {"reduce_scatter", {"mail", "mail"}, 0.75, 1, 2},
                         {"all_to_all", {"mail", "mail"}, 0.75, 1, 2},
                         {"broadcast --algorithm mail", {"mail", "mail"}, 3, 1, 1},
                         {"all_reduce", {"one_shot", "one_shot"}, 3, 1, 1},
                         {"all_reduce --algorithm mail", {"mail", "mail"}, 3, 1, 1},
                         {"all_gather", {"push", "pull"}, 0.75, 1, 20}}) {
    const Outcome outcome = tandem_command("plan " + std::string(row.operation) + " -n 4 --size " +
                                           std::to_string(row.kib) + "K --link 100us,0.001GB/s --json -");
    ASSERT_EQ(outcome.code, success) << row.operation;
    const auto document = nlohmann::json::parse(outcome.out);
    const bool fetches = contains(document["plan"], "read by their peers in one copy");
    const auto predicted = document["predicted"];
    ASSERT_EQ(predicted.size(), row.algorithms.size()) << row.operation << predicted;
    for (std::size_t i = 0; i < predicted.size(); ++i) {
      std::string algorithm = row.algorithms[i];
      if (algorithm.starts_with(fetch_or)) algorithm = fetches ? "fetch" : algorithm.substr(fetch_or.size());
      EXPECT_EQ(predicted[i]["algorithm"], algorithm) << row.operation;
      const double link = row.rounds * 100 + row.carried * 1024 * row.kib;
      EXPECT_GE(predicted[i]["time_us"].get<double>(), link * 0.999) << row.operation;
      EXPECT_LT(predicted[i]["time_us"].get<double>(), link * 1.002) << row.operation;  // memory is far faster
    }
  }
}

TEST(CommandLine, BenchPrintsTheColumnsOfNcclTests) {
  const Outcome outcome = tandem_command("bench all_reduce -n 2 -b 1K -e 1K --iters 2");
  EXPECT_EQ(outcome.code, success);
  for (const char* part : {"algbw", "busbw", "#wrong", "redop", "out-of-place", "in-place", "# Avg bus bandwidth"}) {
    EXPECT_TRUE(contains(outcome.out, part)) << part << " is not in\n" << outcome.out;
  }
}

TEST(CommandLine, BenchSaysWhereThereAreNoGraphs) {
  const Outcome outcome = tandem_command("bench all_reduce -n 2 -b 1K -e 1K -G 3 2>&1");
  EXPECT_EQ(outcome.code, bad_command_line);
  testing::expect_says(outcome.out, {"-G is 3", "host", "--device cuda"});
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
  std::istringstream list(tandem_command("--help").out);
  int commands = 0;
  for (std::string line; std::getline(list, line);) {
    if (!line.starts_with("  ")) continue;
    const std::string command = line.substr(2, line.find(' ', 2) - 2);
    const Outcome outcome = tandem_command(command + " --help");
    EXPECT_EQ(outcome.code, success);
    EXPECT_TRUE(contains(outcome.out, "Usage: tandem " + command + " [OPTIONS]")) << outcome.out;
    const std::size_t examples = outcome.out.find("\nExample");
    ASSERT_NE(examples, std::string::npos) << outcome.out;
    EXPECT_TRUE(contains(outcome.out.substr(examples), " tandem " + command + " ")) << outcome.out;
    ++commands;
  }
  EXPECT_GE(commands, 5);
}

/// The value of the line of a section of `info --json`.
std::string line_of(const nlohmann::json& document, const char* section, const std::string& id) {
  for (const auto& line : document[section]) {
    if (line["id"] == id) return line["is"];
  }
  ADD_FAILURE() << section << " has no " << id << ": " << document[section];
  return "";
}

TEST(CommandLine, InfoSaysWhatThereIsAndWhyNot) {
  const Outcome outcome = tandem_command("info --json", "TANDEM_LINK=20us,1GB/s");
  ASSERT_EQ(outcome.code, success);
  const auto document = nlohmann::json::parse(outcome.out);
  EXPECT_TRUE(line_of(document, "devices", "host").find("emulated link of 20 us") != std::string::npos);
  EXPECT_EQ(line_of(document, "memory_backends", "host"), "on host");
  EXPECT_FALSE(contains(line_of(document, "gemm", "host"), "cannot be used")) << document["gemm"];
  EXPECT_EQ(document["launcher"], "none: a world of one");
  EXPECT_EQ(document["plan_cache"], "none: plans run what the cost model chooses");
  EXPECT_EQ(line_of(document, "links", "host"), "emulated link 20us,1GB/s");
  EXPECT_EQ(line_of(document, "cost_model", "host"), "1.0 GB/s and 20.0 us from a rank to a peer");
  EXPECT_EQ(line_of(nlohmann::json::parse(tandem_command("info --json").out), "links", "host"), "shared memory");
  const auto gpus = static_cast<std::size_t>(device_count(DeviceType::cuda));
  EXPECT_EQ(document["links"].size(), 1 + (gpus < 2 ? 0 : gpus * (gpus - 1) / 2)) << document["links"];
  if (device_count(DeviceType::cuda) == 0) {
    EXPECT_TRUE(contains(line_of(document, "memory_backends", "cuda"), "none: ")) << document["memory_backends"];
  }
  const Outcome inside = tandem_command("run -n 2 --no-prefix -- " TANDEM_TEST_CLI " info --json | grep launcher");
  EXPECT_TRUE(contains(inside.out, "rank 1 of 2")) << inside.out;
}

// TANDEM_DEVICE=cuda alone is an error where there is no GPU, and with a link everywhere.
TEST(CommandLine, TheDeviceOfTheCommandLineCountsAlsoIfItIsAuto) {
  const std::string command = "plan all_gather_linear -n 2 --shape 8,8,8 --json - ";
  EXPECT_NE(tandem_command(command + "--link 1us,1GB/s 2>/dev/null", "TANDEM_DEVICE=cuda").code, success);
  const Outcome outcome = tandem_command(command + "--device auto", "TANDEM_DEVICE=cuda");
  ASSERT_EQ(outcome.code, success) << outcome.out;
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["device"], device_count(DeviceType::cuda) > 0 ? "cuda" : "host");
}

TEST(CommandLine, PlanAnswersForGpusAlsoWhereThereAreNone) {
  if (device_count(DeviceType::cuda) != 0) GTEST_SKIP() << "there is CUDA";
  const Outcome outcome =
      tandem_command("plan all_gather_linear -n 4 --shape 8192,57344,8192 --device cuda --json - 2>&1");
  const std::string why = why_no_device(DeviceType::cuda);
  if (why == "built without CUDA") {
    EXPECT_EQ(outcome.code, failure);
    testing::expect_says(outcome.out, {"H200", why});
    return;
  }
  ASSERT_EQ(outcome.code, success) << outcome.out;
  const auto document = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(document["device"], "cuda, no GPU here: costs of an H200 over NVLink");
  EXPECT_EQ(document["type"], "bf16");
  EXPECT_EQ(document["algorithm"], "pipeline");
  EXPECT_LT(document["t_pipeline_us"].get<double>(), document["t_sequence_us"].get<double>());
}

TEST(CommandLine, InfoSaysWhyThereIsNoCuda) {
  if (device_count(DeviceType::cuda) != 0) GTEST_SKIP() << "there is CUDA";
  const auto document = nlohmann::json::parse(tandem_command("info --json").out);
  EXPECT_EQ(line_of(document, "devices", "cuda"), "none: " + why_no_device(DeviceType::cuda));
}

TEST(CommandLine, InfoPrintsItAsText) {
  const Outcome outcome = tandem_command("info");
  EXPECT_EQ(outcome.code, success);
  for (const char* part :
       {"\ndevices\n  host", "\nlinks\n  host", "\ncost model's constants (measured: ", "\nmemory backends\n",
        "\nmatrix products\n", "\nenvironment\n", "TANDEM_DEVICE    = host"}) {
    EXPECT_TRUE(contains(outcome.out, part)) << part << " is not in\n" << outcome.out;
  }
}

TEST(CommandLine, ATimelineDoesNotTakeTheTraceThatTheEnvironmentAsksFor) {
  const std::string command = "bench all_reduce -n 1 -b 4 -e 4 --iters 1 -w 0 ";
  const std::string trace = "TANDEM_TRACE=" + ::testing::TempDir() + "whole.json";
  EXPECT_EQ(tandem_command(command, trace).code, success);
  const Outcome both = tandem_command(command + "--timeline /dev/null 2>&1", trace);
  EXPECT_EQ(both.code, bad_command_line);
  for (const char* part : {"TANDEM_TRACE is '", "--timeline", "allowed: "}) {
    EXPECT_TRUE(contains(both.out, part)) << part << " is not in\n" << both.out;
  }
}

TEST(CommandLine, BenchDrawsItsTimeline) {
  if (testing::run_command("/usr/bin/python3 -c 'import matplotlib' 2>&1").code != 0) {
    GTEST_SKIP() << "the system's Python has no matplotlib";
  }
  const std::string timeline = ::testing::TempDir() + "bench_timeline.json";
  const std::string picture = ::testing::TempDir() + "bench_timeline.png";
  std::filesystem::remove(picture);
  const Outcome outcome =
      tandem_command("bench all_gather -n 2 -b 64K -e 64K --beside 64,64,64 --iters 2 --link 5us,1GB/s --timeline " +
                     timeline + " --plot " + picture);
  EXPECT_EQ(outcome.code, success) << outcome.out;
  EXPECT_TRUE(testing::contents_of(picture).starts_with("\x89PNG")) << outcome.out;
  EXPECT_TRUE(contains(testing::contents_of(timeline), "all_gather"));
  const Outcome nowhere = tandem_command("bench all_gather -n 1 -b 4 -e 4 --iters 1 --timeline " + timeline +
                                         " --plot /proc/no/such/folder/a.png 2>&1");
  EXPECT_EQ(nowhere.code, failure);
  testing::expect_says(nowhere.out, {"/proc/no/such/folder/a.png was not drawn", "was written"});
}

TEST_P(Commands, BenchMeasuresACollectiveBesideAProduct) {
  for (const std::string& operation : operation_names()) {
    if (is_linear(parse_operation(operation))) continue;
    const std::string command = "bench " + operation + ranks() + " -b 12 -e 12K -f 32 --beside 33,17,29 -w 1 --json - ";
    const Outcome outcome = tandem_command(command + "--iters 2 --link 5us,1GB/s -d bf16");
    ASSERT_EQ(outcome.code, success) << outcome.out;
    const auto document = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(document["wrong"], 0);
    ASSERT_EQ(document["rows"].size(), 3U);
    for (const auto& row : document["rows"]) {
      for (const char* time : {"t_gemm_us", "t_comm_us", "t_seq_us", "t_overlap_us"}) {
        EXPECT_GT(row[time].get<double>(), 0) << time;
      }
    }
  }
  const Outcome corrupted = tandem_command(
      "bench all_reduce" + ranks() + " -b 4 -e 4 --beside 4,4,4 --iters 1 --json -", "TANDEM_TEST_CORRUPT=1");
  EXPECT_EQ(corrupted.code, failure);
  const auto row = nlohmann::json::parse(corrupted.out)["rows"][0];
  EXPECT_EQ(row["wrong"], 1);
  EXPECT_TRUE(row["t_overlap_us"].is_null());
}

TEST(CommandLine, BenchHoldsWhatSendsAgainstACopyToOnePeer) {
  for (const std::string& operation : operation_names()) {
    const bool linear = is_linear(parse_operation(operation));
    const std::string command =
        "bench " + operation + " -n 3 -w 1 --iters 2 --wire " + (linear ? "--shape 33,17,29" : "-b 12K -e 12K");
    const Outcome outcome = tandem_command(command + " --json -");
    ASSERT_EQ(outcome.code, success) << outcome.out;
    const auto row = nlohmann::json::parse(outcome.out)["rows"][0];
    const auto number = [&row](const std::string& key) { return row[key].get<double>(); };
    if (linear) {
      // Of three ranks, two of three shards cross; and in an all_reduce twice.
      const double copies = parse_operation(operation) == Operation::linear_all_reduce ? 4 : 2;
      EXPECT_NEAR(number("t_wire_us") / number("t_copy_us"), copies, 1e-6) << operation;
      EXPECT_NEAR(number("wire_ideal_over_overlap"),
                  std::max(number("t_gemm_us"), number("t_wire_us")) / number("t_overlap_us"), 1e-6);
    } else {
      const double copied = parse_operation(operation) == Operation::broadcast ? 12288 : 4096;
      const double rate = copied / number("out_of_place_copy_us") * 1e-3;
      EXPECT_NEAR(number("out_of_place_busbw_over_copy"), number("out_of_place_busbw_gbs") / rate, 1e-6) << operation;
    }
    EXPECT_TRUE(contains(tandem_command(command).out, "a copy to one peer takes")) << operation;
  }
  const Outcome corrupted =
      tandem_command("bench all_reduce -n 2 -b 4 -e 4 --iters 1 --wire --json -", "TANDEM_TEST_CORRUPT=1");
  EXPECT_TRUE(nlohmann::json::parse(corrupted.out)["rows"][0]["in_place_copy_us"].is_null());
  const Outcome alone = tandem_command("bench all_gather -n 1 --wire 2>&1");
  EXPECT_EQ(alone.code, bad_command_line);
  testing::expect_says(alone.out, {"--wire", "no peer"});
}

TEST(CommandLine, TuneSaysWhatItCannotTune) {
  const std::string foreign = ::testing::TempDir() + "foreign";
  std::ofstream(foreign) << "{}";
  const auto refused = [](const std::string& arguments, std::initializer_list<std::string> parts) {
    const Outcome outcome = tandem_command("tune " + arguments + " 2>&1");
    EXPECT_EQ(outcome.code, bad_command_line);
    testing::expect_says(outcome.out, parts);
  };
  const std::string linear = "all_gather_linear -n 2 --shape 8,8,8 ";
  refused(linear, {"TANDEM_PLAN_CACHE is 'none'", "--cache"});
  refused(linear + "--cache " + foreign, {"is not a plan cache", foreign});
  EXPECT_EQ(testing::contents_of(foreign), "{}");
  const std::string cache = " --cache " + ::testing::TempDir() + "refused";
  refused("all_gather_linear -n 1 --shape 8,8,8" + cache, {"1 rank", "2 and more"});
  refused("all_reduce -n 2 --shape 8,8,8" + cache, {"all_reduce", "linear_reduce_scatter"});
  refused("all_gather_linear -n 2" + cache, {"--shape"});
  refused(linear + "--seconds 0" + cache, {"--seconds", "from 1"});
  refused(linear + "-d i32" + cache, {"i32"});
  refused("linear_weight_gradient -n 2 --shape 8,8,8 --layout NN" + cache, {"no --layout", "linear_all_reduce"});
  refused(linear + "--gathered dy" + cache, {"no --gathered", "linear_weight_gradient"});
}

TEST(CommandLine, LayoutsAndEpiloguesThatCannotBe) {
  const auto refused = [](const std::string& arguments, std::initializer_list<std::string> parts) {
    const Outcome outcome = tandem_command(arguments + " 2>&1");
    EXPECT_EQ(outcome.code, bad_command_line) << arguments;
    testing::expect_says(outcome.out, parts);
  };
  for (const std::string command : {"bench ", "plan "}) {
    const std::string layer = command + "all_gather_linear -n 2 --shape 8,8,8 ";
    refused(layer + "--layout XY", {"--layout is 'XY'", "NT, NN, TT, TN"});
    refused(layer + "--activation relu", {"--activation 'relu'", "none, gelu_erf, gelu_tanh"});
    refused(layer + "--activation gelu_erf --auxiliary both", {"--auxiliary 'both'", "none, output, gradient"});
    refused(layer + "--auxiliary output", {"--auxiliary output", "allowed: --activation gelu_erf"});
    refused(command + "linear_all_reduce -n 2 --shape 8,8,8 --activation gelu_erf --auxiliary output",
            {"linear_all_reduce has no --auxiliary", "all_gather_linear"});
    for (const char* option : {"--layout NN", "--bias", "--activation gelu_erf"}) {
      refused(command + "linear_weight_gradient -n 2 --shape 8,8,8 " + option, {"linear_weight_gradient has no --"});
      refused(command + "all_reduce -n 2 " + option, {"all_reduce has no --"});
    }
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
