// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tandem/device/device.hpp"

#include "support/errors.hpp"
#include "tools/command.hpp"
#include "tools/operation.hpp"
#include "tools/support.hpp"

namespace tandem::tools {
namespace {

class PlanOfRanks : public OfRanks {};

TEST_P(PlanOfRanks, SaysWhatWouldRun) {
  for (const std::string& operation : operation_names()) {
    const bool linear = is_linear(parse_operation(operation));
    const Outcome outcome =
        tandem_command("plan " + operation + ranks() + (linear ? " --shape 64,64,64" : " --size 64K") + " --json -");
    ASSERT_EQ(outcome.code, success) << outcome.out;
    const auto document = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(document["operation"], operation);
    EXPECT_TRUE(document.contains(linear ? "t_sequence_us" : "predicted"));
    if (!linear) continue;
    EXPECT_EQ(document["t_direct_us"].is_null(),
              operation != "linear_reduce_scatter" && operation != "linear_all_reduce");
    EXPECT_EQ(document["t_stepwise_us"].is_null(), operation != "linear_all_reduce");
  }
}

TEST(Plan, NothingTakesATime) {
  for (const std::string operation :
       {"all_gather_linear", "linear_reduce_scatter", "linear_all_reduce", "linear_weight_gradient"}) {
    for (const char* shape : {"0,0,0", "0,5,5", "5,0,5", "5,5,0"}) {
      const Outcome outcome =
          tandem_command("plan --shape " + std::string(shape) + " -n 3 --link 20us,1GB/s " + operation);
      ASSERT_EQ(outcome.code, success) << outcome.out;
      EXPECT_FALSE(contains(outcome.out, "nan us") || contains(outcome.out, "inf us")) << outcome.out;
    }
  }
}

TEST(Plan, ASizeWithoutAnElementIsRefused) {
  for (const auto& [operation, least] :
       {std::pair("all_reduce", 4), {"broadcast", 4}, {"all_gather", 12}, {"all_to_all", 12}}) {
    const std::string command = std::string("plan ") + operation + " -n 3 --device host --size ";
    const Outcome outcome = tandem_command(command + std::to_string(least - 1) + " 2>&1");
    EXPECT_NE(outcome.code, success) << outcome.out;
    testing::expect_says(outcome.out,
                         {"--size", std::to_string(least - 1), operation, "f32", "from " + std::to_string(least)});
    EXPECT_EQ(tandem_command(command + std::to_string(least)).code, success);
  }
}

TEST(Plan, PredictsCollectivesByAlgorithm) {
  struct Row {
    const char* operation;
    std::vector<std::string> algorithms;  // for symmetric tensors, and for plain ones if it takes both
    double carried;                       // by the link of one of four ranks, relative to the size
    int rounds;
    int kib = 1024;
  };
  // If ranks can read each other's memory, large plain tensors are read in place, unless that takes too long, which
  // each command measures itself.
  const std::string fetch_or = "fetch or ";
  const auto large = [&](const char* otherwise) { return fetch_or + otherwise; };
  for (const Row& row :
       {Row{"all_gather", {"push", large("staged")}, 0.75, 1},
        {"all_gather --algorithm staged", {"staged"}, 0.75, 1},
        {"reduce_scatter", {"direct", large("staged")}, 0.75, 1},
        {"all_reduce", {"two_shot", large("two_shot")}, 1.5, 2},
        {"all_reduce --algorithm one_shot", {"one_shot", "one_shot"}, 3, 1},
        {"all_to_all", {"push", large("staged")}, 0.75, 1},
        {"broadcast --algorithm push", {"push"}, 27.0 / 19, 2},  // shares of 9, 6 and 4 parts, then forwarded
        {"broadcast --algorithm pull", {"pull"}, 1, 1},
        // small ones use staging memory, whatever the tensors
        {"all_gather", {"staged", "staged"}, 0.75, 1, 4},
        {"reduce_scatter", {"staged", "staged"}, 0.75, 1, 8},
        {"all_reduce", {"one_shot", "one_shot"}, 3, 1, 4},
        // the smallest use mail
        {"all_gather", {"mail", "mail"}, 0.75, 1, 1},
        {"reduce_scatter", {"mail", "mail"}, 0.75, 1, 2},
        {"all_to_all", {"mail", "mail"}, 0.75, 1, 2},
        {"broadcast --algorithm mail", {"mail", "mail"}, 3, 1, 1},
        {"all_reduce", {"one_shot", "one_shot"}, 3, 1, 1},
        {"all_reduce --algorithm mail", {"mail", "mail"}, 3, 1, 1},
        {"all_gather", {"push", "staged"}, 0.75, 1, 20}}) {
    const Outcome outcome = tandem_command("plan " + std::string(row.operation) + " -n 4 --size " +
                                           std::to_string(row.kib) + "K --link 100us,0.001GB/s --json -");
    ASSERT_EQ(outcome.code, success) << row.operation;
    const auto document = nlohmann::json::parse(outcome.out);
    const bool fetches = contains(document["plan"], "\nfetch: ");
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

TEST(Plan, AnswersForGpusAlsoWhereThereAreNone) {
  if (device_count(DeviceType::cuda) != 0) GTEST_SKIP() << "there is CUDA";
  const Outcome outcome =
      tandem_command("plan all_gather_linear -n 4 --shape 8192,57344,8192 --device cuda --json - 2>&1");
  ASSERT_EQ(outcome.code, success) << outcome.out;
  const auto document = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(document["device"], "cuda, no GPU here: costs of an H200 over NVLink");
  EXPECT_EQ(document["type"], "bf16");
  EXPECT_EQ(document["algorithm"], "pipeline");
  EXPECT_LT(document["t_pipeline_us"].get<double>(), document["t_sequence_us"].get<double>());
}

INSTANTIATE_TEST_SUITE_P(Ranks, PlanOfRanks, ::testing::Values(1, 2, 3), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace tandem::tools
