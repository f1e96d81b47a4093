// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/temporary_folder.hpp"
#include "tools/command.hpp"
#include "tools/operation.hpp"
#include "tools/support.hpp"

namespace tandem::tools {
namespace {

class TuneOfSeveralRanks : public OfRanks {};

TEST_P(TuneOfSeveralRanks, KeepsWhatPlansThenRun) {
  const testing::TemporaryFolder folder;
  const std::string cache = folder.at("plans");
  for (const std::string& operation : operation_names()) {
    if (!is_linear(parse_operation(operation))) continue;
    std::string what = operation + ranks();
    what += " --shape 33,17,29 --link 5us,1GB/s --json - ";
    const Outcome outcome = tandem_command("tune " + what + "--seconds 0.5 --cache " + cache);
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
  EXPECT_EQ(nlohmann::json::parse(tandem_command("info --json -", "TANDEM_PLAN_CACHE=" + cache).out)["plan_cache"],
            cache + ": 4 tuned plans and products");
}

TEST_P(TuneOfSeveralRanks, WhatItKeepsIsOfOneLayoutAndOfEpiloguesThatChangeNoWay) {
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
        // What is gathered matters, not whether it is called x or dy.
        Row{"linear_weight_gradient", " --gathered dy", "", " --shape 33,17,30", "", " --shape 33,30,17"},
        Row{"linear_weight_gradient", " -d bf16 --gathered dy --gradient-dtype bf16", " -d bf16 --gathered dy",
            " --shape 33,17,30", " -d bf16 --gradient-dtype bf16", " --shape 33,30,17"}}) {
    const testing::TemporaryFolder folder;
    const std::string cache = folder.at("plans");
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
      EXPECT_TRUE(contains(plan(std::string(row.same) + row.same_shape)["why"], "tuned"));
      EXPECT_TRUE(contains(plan(tuned)["spec"], "dy gathered"));
    } else {
      EXPECT_TRUE(contains(plan(tuned + " --bias")["why"], "tuned")) << row.operation;
      // Two ranks sum an output in a different way if it is activated.
      const bool other_way = GetParam() == 2 && std::string(row.operation) != "all_gather_linear";
      EXPECT_EQ(contains(plan(tuned + " --activation gelu_erf")["why"], "tuned"), !other_way) << row.operation;
    }
  }
}

TEST(Tune, TakesItsOperationBehindShapes) {
  const testing::TemporaryFolder folder;
  const Outcome outcome = tandem_command(
      "tune -n 2 --shape 8,8,8 --shape 4,4,4 all_gather_linear --seconds 1 --cache " + folder.at("plans"));
  EXPECT_EQ(outcome.code, success) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "8,8,8") && contains(outcome.out, "4,4,4")) << outcome.out;
}

TEST_P(TuneOfSeveralRanks, KeepsNothingThatIsWrong) {
  const testing::TemporaryFolder folder;
  const std::string cache = folder.at("plans");
  const Outcome outcome =
      tandem_command("tune all_gather_linear" + ranks() + " --shape 8,8,8 --seconds 1 --json - --cache " + cache,
                     "TANDEM_TEST_CORRUPT=1");
  EXPECT_EQ(outcome.code, failure);
  const auto rows = nlohmann::json::parse(outcome.out)["rows"];
  EXPECT_EQ(rows[0]["wrong"], 1);
  EXPECT_TRUE(rows[0]["time_us"].is_null());
  EXPECT_EQ(rows[1]["wrong"], 0);
  for (const auto& row : rows) EXPECT_EQ(row["kept"], false) << row;
  EXPECT_FALSE(std::filesystem::exists(cache));
}

TEST(Tune, SaysWhatItCannotTune) {
  const testing::TemporaryFolder folder;
  const std::string foreign = folder.at("foreign");
  std::ofstream(foreign) << "{}";
  const auto refused = [](const std::string& arguments, std::initializer_list<std::string> parts) {
    const Outcome outcome = tandem_command("tune " + arguments + " 2>&1");
    EXPECT_EQ(outcome.code, bad_command_line);
    testing::expect_says(outcome.out, parts);
  };
  const std::string linear = "all_gather_linear -n 2 --shape 8,8,8 ";
  refused(linear, {"TANDEM_PLAN_CACHE is 'none'", "--cache"});
  refused(linear + "--cache none", {"--cache is 'none'", "a path"});
  refused(linear + "--cache ''", {"--cache is ''", "a path"});
  refused(linear + "--cache " + foreign + "/plans", {"cannot be kept", "is no folder"});
  refused(linear + "--cache " + foreign, {"is not a plan cache", foreign});
  for (const char* nowhere : {"/proc/plans", "/proc/tandem/plans"}) {  // where root, too, can create nothing
    refused(linear + "--cache " + nowhere, {"the plan cache '" + std::string(nowhere) + "'", "with --cache"});
  }
  EXPECT_EQ(testing::contents_of(foreign), "{}");
  const std::string cache = " --cache " + folder.at("refused");
  refused("all_gather_linear -n 1 --shape 8,8,8" + cache, {"1 rank", "2 and more"});
  refused("all_reduce -n 2 --shape 8,8,8" + cache, {"all_reduce", "linear_reduce_scatter"});
  refused("all_gather_linear -n 2" + cache, {"--shape"});
  refused(linear + "--seconds 0" + cache, {"--seconds", "from 0.01"});
  refused(linear + "--seconds nan" + cache, {"--seconds is 'nan'", "to 3600"});
  EXPECT_FALSE(std::filesystem::exists(folder.at("refused")));
  refused(linear + "-d i32" + cache, {"i32"});
  refused("linear_weight_gradient -n 2 --shape 8,8,8 --layout NN" + cache, {"no --layout", "linear_all_reduce"});
  refused(linear + "--gathered dy" + cache, {"no --gathered", "linear_weight_gradient"});
  refused(linear + "--gradient-dtype f32" + cache, {"no --gradient-dtype", "linear_weight_gradient"});
}

INSTANTIATE_TEST_SUITE_P(Ranks, TuneOfSeveralRanks, ::testing::Values(2, 3), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace tandem::tools
