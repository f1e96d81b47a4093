// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tandem/base/version.hpp"

#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/processes.hpp"
#include "support/temporary_folder.hpp"
#include "tools/command.hpp"
#include "tools/commit.hpp"
#include "tools/operation.hpp"
#include "tools/provenance.hpp"
#include "tools/support.hpp"

namespace tandem::tools {
namespace {

class BenchOfRanks : public OfRanks {};

TEST(Bench, PrintsTheColumnsOfNcclTests) {
  const Outcome outcome = tandem_command("bench all_reduce -n 2 -b 1K -e 1K --iters 2");
  EXPECT_EQ(outcome.code, success);
  for (const char* part : {"algbw", "busbw", "#wrong", "redop", "out-of-place", "in-place", "# Avg bus bandwidth"}) {
    EXPECT_TRUE(contains(outcome.out, part)) << part << " is not in\n" << outcome.out;
  }
}

TEST(Bench, SaysWhatItsFiguresAreOf) {
  const std::string command = "bench all_reduce -n 2 -b 4 -e 4 --iters 1";
  EXPECT_TRUE(contains(tandem_command(command).out, "# tandem " + build() + "; plan cache: none: "));
  const auto run = nlohmann::json::parse(tandem_command(command + " --json -", "TANDEM_LOG='warn'").out)["run"];
  EXPECT_EQ(run["command"], "tandem " + command + " --json -");
  EXPECT_EQ(run["version"], version());
  EXPECT_EQ(run["commit"], commit());
  EXPECT_EQ(run["environment"]["TANDEM_LOG"], "warn");
  EXPECT_EQ(run["environment"]["TANDEM_PLAN_CACHE"], "none");
  EXPECT_FALSE(run["environment"].contains("TANDEM_LINK")) << run;
}

TEST_P(BenchOfRanks, MeasuresEveryCollective) {
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
      EXPECT_GE(row["out_of_place_p99_us"], row["out_of_place_time_us"]);
      const std::string algorithm = row["out_of_place_algorithm"];
      EXPECT_NE(algorithm, "auto");
      EXPECT_NE(algorithm, "");
    }
  }
}

TEST_P(BenchOfRanks, MeasuresEveryAlgorithmInTheTensorsThatItTakes) {
  struct Row {
    const char* arguments;
    const char* tensors;
  };
  for (const Row& row : {Row{"all_gather --algorithm push", "into symmetric"},
                         {"all_gather --algorithm staged", "plain"},
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
    const std::string arguments = row.arguments;
    const std::size_t asked = arguments.find("--algorithm ");
    for (const auto& size : document["rows"]) {
      EXPECT_GT(size["out_of_place_time_us"].get<double>(), 0) << arguments;
      if (asked == std::string::npos) continue;
      for (const char* form : {"out_of_place_algorithm", "in_place_algorithm"}) {
        if (size[form].is_null()) continue;  // there is no such form in these tensors
        const std::string algorithm = size[form];
        if (algorithm == "copy" && GetParam() == 1) continue;  // a rank that is alone has nothing to add
        EXPECT_EQ(arguments.substr(asked).find("--algorithm " + algorithm), 0U) << arguments << ": " << algorithm;
      }
    }
  }
}

TEST_P(BenchOfRanks, MeasuresEveryLinearOperation) {
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

TEST_P(BenchOfRanks, MeasuresEveryLayoutAndEpilogueOfALinearLayer) {
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

TEST_P(BenchOfRanks, MeasuresLayersOf8BitFloats) {
  for (const std::string operation : {"all_gather_linear", "linear_reduce_scatter", "linear_all_reduce"}) {
    for (const std::string scaling : {"none", "per_tensor", "per_row"}) {
      const Outcome outcome = tandem_command("bench " + operation + ranks() +
                                             " -d f8e5m2 --weight-dtype f8e4m3 --out-dtype f16 --scaling " + scaling +
                                             " --shape 33,17,29 --iters 1 -w 0 --json -");
      ASSERT_EQ(outcome.code, success) << outcome.out;
      const auto document = nlohmann::json::parse(outcome.out);
      EXPECT_EQ(document["weight_dtype"], "f8e4m3");
      EXPECT_EQ(document["out_dtype"], "f16");
      EXPECT_EQ(document["scaling"], scaling);
      EXPECT_EQ(document["fast_accum"], false);
      EXPECT_EQ(document["wrong"], 0) << operation << scaling;
      EXPECT_EQ(document["rows"][0]["type"], "f8e5m2");
      EXPECT_GT(document["rows"][0]["t_overlap_us"].get<double>(), 0);
    }
  }
}

TEST_P(BenchOfRanks, MeasuresAWeightGradientThatGathersEitherOperandIntoEitherDType) {
  for (const std::string gathered : {"x", "dy"}) {
    for (const std::string dtype : {"f32", "bf16"}) {
      const Outcome outcome =
          tandem_command("bench linear_weight_gradient" + ranks() + " -d bf16 --gathered " + gathered +
                         " --gradient-dtype " + dtype + " --shape 33,17,29 --iters 1 -w 0 --json -");
      ASSERT_EQ(outcome.code, success) << outcome.out;
      const auto document = nlohmann::json::parse(outcome.out);
      EXPECT_EQ(document["gathered"], gathered);
      EXPECT_EQ(document["gradient_dtype"], dtype);
      EXPECT_EQ(document["wrong"], 0);
      EXPECT_GT(document["rows"][0]["t_overlap_us"].get<double>(), 0);
    }
  }
}

TEST_P(BenchOfRanks, MeasuresACollectiveBesideAProduct) {
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

TEST(Bench, HoldsWhatSendsAgainstACopyToOnePeer) {
  for (const std::string& operation : operation_names()) {
    const bool linear = is_linear(parse_operation(operation));
    const std::string command =
        "bench " + operation + " -n 3 -w 1 --iters 2 --wire " + (linear ? "--shape 33,17,29" : "-b 12K -e 12K");
    const Outcome outcome = tandem_command(command + " --json -");
    ASSERT_EQ(outcome.code, success) << outcome.out;
    const auto row = nlohmann::json::parse(outcome.out)["rows"][0];
    const auto number = [&row](const std::string& key) { return row[key].get<double>(); };
    if (linear) {
      // With three ranks, two of three shards cross the link; in an all-reduce, twice.
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

TEST_P(BenchOfRanks, PrintsNoSpeedForWhatGoesWrongWhileItIsTimed) {
  const Outcome linear = tandem_command(
      "bench all_gather_linear" + ranks() + " --shape 33,17,29 --iters 2 -w 1 --json -", "TANDEM_TEST_CORRUPT=1");
  EXPECT_EQ(linear.code, failure);
  const auto row = nlohmann::json::parse(linear.out)["rows"][0];
  EXPECT_EQ(row["wrong"], 1);
  EXPECT_TRUE(row["t_overlap_us"].is_null());
  const Outcome many_terms =
      tandem_command("bench all_gather_linear" + ranks() + " -d bf16 --shape 8,8,8192 --iters 1 -w 0 --json -",
                     "TANDEM_TEST_CORRUPT=1");
  EXPECT_EQ(many_terms.code, failure);
  EXPECT_EQ(nlohmann::json::parse(many_terms.out)["rows"][0]["wrong"], 1);
  const Outcome collective =
      tandem_command("bench all_gather" + ranks() + " -b 4K -e 4K --iters 2 -w 1 --json -", "TANDEM_TEST_CORRUPT=1");
  EXPECT_EQ(collective.code, failure);
  const auto size = nlohmann::json::parse(collective.out)["rows"][0];
  for (const std::string form : {"out_of_place", "in_place"}) {
    EXPECT_EQ(size[form + "_wrong"], 1) << form;
    EXPECT_TRUE(size[form + "_time_us"].is_null()) << form;
  }
}

TEST(Bench, SaysWhereItComparesASample) {
  const std::string command = "bench all_gather_linear -n 1 --iters 1 -w 0 --shape 8,8,8 ";
  const std::string sample = "# #wrong of large shapes is out of a sample: 64 x 64 elements of each rank's output\n";
  EXPECT_FALSE(contains(tandem_command(command).out, sample));
  EXPECT_TRUE(contains(tandem_command(command + "--shape 257,256,256").out, sample));
  const Outcome outcome = tandem_command(command + "--shape 257,256,256 --json -");
  const auto rows = nlohmann::json::parse(outcome.out)["rows"];
  EXPECT_EQ(rows[0]["checked"], "all");
  EXPECT_EQ(rows[1]["checked"], "sample");
}

TEST(Bench, SaysWhereThereAreNoGraphs) {
  const Outcome outcome = tandem_command("bench all_reduce -n 2 -b 1K -e 1K -G 3 2>&1");
  EXPECT_EQ(outcome.code, bad_command_line);
  testing::expect_says(outcome.out, {"-G is 3", "host", "--device cuda"});
}

TEST(Bench, ATimelineDoesNotTakeTheTraceThatTheEnvironmentAsksFor) {
  const std::string command = "bench all_reduce -n 1 -b 4 -e 4 --iters 1 -w 0 ";
  const testing::TemporaryFolder folder;
  const std::string trace = "TANDEM_TRACE=" + folder.at("whole.json");
  EXPECT_EQ(tandem_command(command, trace).code, success);
  const Outcome both = tandem_command(command + "--timeline /dev/null 2>&1", trace);
  EXPECT_EQ(both.code, bad_command_line);
  for (const char* part : {"TANDEM_TRACE is '", "--timeline", "allowed: "}) {
    EXPECT_TRUE(contains(both.out, part)) << part << " is not in\n" << both.out;
  }
}

TEST(Bench, DrawsItsTimeline) {
  if (testing::run_command("/usr/bin/python3 -c 'import matplotlib' 2>&1").code != 0) {
    GTEST_SKIP() << "the system's Python has no matplotlib";
  }
  const testing::TemporaryFolder folder;
  const std::string timeline = folder.at("timeline.json");
  const std::string picture = folder.at("timeline.png");
  const Outcome outcome =
      tandem_command("bench all_gather -n 2 -b 64K -e 64K --beside 64,64,64 --iters 2 --link 5us,1GB/s --timeline " +
                     timeline + " --plot " + picture);
  EXPECT_EQ(outcome.code, success) << outcome.out;
  EXPECT_TRUE(testing::contents_of(picture).starts_with("\x89PNG")) << outcome.out;
  EXPECT_TRUE(contains(testing::contents_of(timeline), "all_gather"));
  const std::string no_picture = folder.at("timeline.txt");
  const Outcome undrawn = tandem_command("bench all_gather -n 1 -b 4 -e 4 --iters 1 --timeline " + timeline +
                                         " --plot " + no_picture + " 2>&1");
  EXPECT_EQ(undrawn.code, failure);
  testing::expect_says(undrawn.out, {no_picture + " was not drawn", "was written"});
  const Outcome nowhere = tandem_command("bench all_gather -n 1 -b 4 -e 4 --plot /proc/no/such/folder/a.png 2>&1");
  EXPECT_EQ(nowhere.code, bad_command_line);
  testing::expect_says(nowhere.out, {"--plot is '/proc/no/such/folder/a.png'", "there is no folder"});
}

INSTANTIATE_TEST_SUITE_P(Ranks, BenchOfRanks, ::testing::Values(1, 2, 3), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace tandem::tools
