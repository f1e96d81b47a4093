// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tandem/device/device.hpp"

#include "support/files.hpp"
#include "support/temporary_folder.hpp"
#include "tools/command.hpp"
#include "tools/support.hpp"

namespace tandem::tools {
namespace {

/// The value of the line `id` in a section of `info --json -`.
std::string line_of(const nlohmann::json& document, const char* section, const std::string& id) {
  for (const auto& line : document[section]) {
    if (line["id"] == id) return line["is"];
  }
  ADD_FAILURE() << section << " has no " << id << ": " << document[section];
  return "";
}

TEST(Info, SaysWhatThereIsAndWhyNot) {
  const Outcome outcome = tandem_command("info --json -", "TANDEM_LINK=20us,1GB/s");
  ASSERT_EQ(outcome.code, success);
  const auto document = nlohmann::json::parse(outcome.out);
  EXPECT_TRUE(line_of(document, "devices", "host").find("emulated link of 20 us") != std::string::npos);
  EXPECT_EQ(line_of(document, "memory_backends", "host"), "available on host");
  EXPECT_FALSE(contains(line_of(document, "gemm", "host"), "cannot be used")) << document["gemm"];
  EXPECT_TRUE(contains(line_of(document, "attention", "host"), "blocks of")) << document["attention"];
  EXPECT_EQ(document["launcher"], "none: a world of one");
  EXPECT_EQ(document["plan_cache"], "none: plans run what the cost model chooses");
  EXPECT_EQ(line_of(document, "links", "host"), "emulated link 20us,1GB/s");
  EXPECT_EQ(line_of(document, "cost_model", "host"), "1.0 GB/s and 20.0 us from a rank to a peer");
  EXPECT_EQ(line_of(nlohmann::json::parse(tandem_command("info --json -").out), "links", "host"), "shared memory");
  const auto gpus = static_cast<std::size_t>(device_count(DeviceType::cuda));
  EXPECT_EQ(document["links"].size(), 1 + (gpus < 2 ? 0 : gpus * (gpus - 1) / 2)) << document["links"];
  if (device_count(DeviceType::cuda) == 0) {
    EXPECT_TRUE(contains(line_of(document, "memory_backends", "cuda"), "unavailable: ")) << document["memory_backends"];
  }
  const Outcome inside = tandem_command("run -n 2 --no-prefix -- " TANDEM_TEST_CLI " info --json - | grep launcher");
  EXPECT_TRUE(contains(inside.out, "rank 1 of 2")) << inside.out;
}

TEST(Info, SaysWhyThereIsNoCuda) {
  if (device_count(DeviceType::cuda) != 0) GTEST_SKIP() << "there is CUDA";
  const auto document = nlohmann::json::parse(tandem_command("info --json -").out);
  EXPECT_EQ(line_of(document, "devices", "cuda"), "none: " + why_no_device(DeviceType::cuda));
}

TEST(Info, SaysWhyNoProgramStarts) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.at("file");
  std::ofstream(file) << "no folder";
  struct Row {
    std::string environment;
    std::string why;
  };
  for (const Row& row : {Row{"TANDEM_LOG=loud", "TANDEM_LOG is 'loud'"},
                         {"TANDEM_LOG_FILE=" + file + "/log", "the log file '" + file + "/log' could not be opened"},
                         {"TANDEM_LOG_FILE=/proc/log", "the log file '/proc/log' could not be opened: "},
                         {"TANDEM_TRACE=" + file + "/trace", "'" + file + "/trace': Not a directory"},
                         {"TANDEM_TRACE=" + folder.at("none/trace"), "/none/trace': No such file or directory"},
                         {"TANDEM_TRACE=" + folder.at(""), "could not open"},
                         {"TANDEM_TRACE=%t", "TANDEM_TRACE is '%t'; allowed: a path"},
                         {"TANDEM_JOB=two TANDEM_RANK=0 TANDEM_WORLD_SIZE=0", "TANDEM_WORLD_SIZE"},
                         {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 "
                          "OMPI_COMM_WORLD_LOCAL_SIZE=1 PMIX_NAMESPACE=two",
                          "2 nodes"}}) {
    const Outcome outcome = tandem_command("info --json -", row.environment);
    EXPECT_EQ(outcome.code, failure) << row.environment;
    EXPECT_TRUE(contains(nlohmann::json::parse(outcome.out)["error"], row.why)) << outcome.out;
  }
}

TEST(Info, SaysThatNoProgramStartsOnCudaWhereThereIsNone) {
  if (device_count(DeviceType::cuda) != 0) GTEST_SKIP() << "there is CUDA";
  const Outcome outcome = tandem_command("info --json -", "TANDEM_DEVICE=cuda");
  EXPECT_EQ(outcome.code, failure);
  const std::string error = nlohmann::json::parse(outcome.out)["error"];
  EXPECT_TRUE(contains(error, "TANDEM_DEVICE") && contains(error, why_no_device(DeviceType::cuda))) << error;
}

TEST(Info, LeavesFilesAsTheyAre) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder.at("trace")) << "of a run";
  std::ofstream(folder.at("log")) << "of a run";
  for (const char* name : {"trace", "log", "none"}) {
    const std::string path = folder.at(name);
    EXPECT_EQ(tandem_command("info", "TANDEM_TRACE=" + path + " TANDEM_LOG_FILE=" + path).code, success) << name;
    EXPECT_EQ(testing::contents_of(path), std::string(name) == "none" ? "" : "of a run");
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.at("")), {}), 2);
}

TEST(Info, TellsWhatIsNoText) {
  const Outcome outcome = tandem_command("info --json -", "TANDEM_TRACE='\xff'");
  EXPECT_EQ(outcome.code, success);
  const auto document = nlohmann::json::parse(outcome.out);
  bool told = false;
  for (const auto& row : document["environment"]) {
    told |= row["variable"] == "TANDEM_TRACE" && row["value"] == "\uFFFD";
  }
  EXPECT_TRUE(told) << outcome.out;
}

TEST(Info, PrintsItAsText) {
  const Outcome outcome = tandem_command("info");
  EXPECT_EQ(outcome.code, success);
  for (const char* part :
       {"\ndevices\n  host", "\nlinks\n  host", "\ncost model's constants (docs/performance", "\nmemory backends\n",
        "\nmatrix products\n", "\nattention\n", "\nenvironment\n", "TANDEM_DEVICE        = host"}) {
    EXPECT_TRUE(contains(outcome.out, part)) << part << " is not in\n" << outcome.out;
  }
}

TEST(Info, FailsWhereNoProgramStarts) {
  for (const auto& [variable, why] : {std::pair("TANDEM_FOO=1", "Tandem knows no such variable"),
                                      std::pair("OMPI_COMM_WORLD_RANK=x", "OMPI_COMM_WORLD_RANK")}) {
    const Outcome outcome = tandem_command("info", variable);
    EXPECT_EQ(outcome.code, failure) << variable;
    EXPECT_TRUE(contains(outcome.out, "\nerror: Tandem programs cannot start in this environment: ")) << outcome.out;
    EXPECT_TRUE(contains(outcome.out, why)) << outcome.out;
    EXPECT_TRUE(contains(outcome.out, "\ndevices\n")) << outcome.out;
  }
}

}  // namespace
}  // namespace tandem::tools
