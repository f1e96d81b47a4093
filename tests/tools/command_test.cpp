// SPDX-License-Identifier: Apache-2.0
// Behavior that several commands share.
#include "tools/command.hpp"

#include <cstddef>
#include <gtest/gtest.h>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tandem/device/device.hpp"

#include "support/errors.hpp"
#include "support/temporary_folder.hpp"
#include "tools/support.hpp"

namespace tandem::tools {
namespace {

class CommandsOfRanks : public OfRanks {};

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

TEST(CommandLine, WrongOnesExitWithTwo) {
  for (const char* wrong :
       {"", "dance", "bench", "bench all_reduce -b 1Q", "bench all_to_all --algorithm push --plain",
        "bench all_to_all --algorithm staged --symmetric", "verify gather", "plan all_gather_linear"}) {
    EXPECT_EQ(tandem_command(std::string(wrong) + " 2>/dev/null").code, bad_command_line) << wrong;
  }
}

TEST(CommandLine, HelpAndVersionTakeNothingElse) {
  EXPECT_EQ(tandem_command("help run").out, tandem_command("run --help").out);
  EXPECT_EQ(tandem_command("help").out, tandem_command("--help").out);
  for (const char* wrong : {"--version --nonsense", "help dance", "help run --now", "--help run"}) {
    EXPECT_EQ(tandem_command(std::string(wrong) + " 2>/dev/null").code, bad_command_line) << wrong;
  }
}

TEST(CommandLine, TheHelpOfRunHasItsProgramAndWhoReadsTheInput) {
  testing::expect_says(tandem_command("run --help").out,
                       {"Usage: tandem run [OPTIONS] -n N [--] PROGRAM [ARGUMENTS]\n", "how many ranks (required)",
                        "Rank 0 reads this command's input", "even if none failed"});
}

TEST(CommandLine, OutputThatIsLostIsAFailure) {
  for (const char* command :
       {"--help", "--version", "info", "info --json -", "plan all_reduce -n 1", "plan all_reduce -n 2 --json -",
        "bench all_reduce -n 1 -b 4 -e 4 --iters 1", "bench all_reduce -n 2 -b 4 -e 4 --iters 1 --csv"}) {
    const Outcome outcome = tandem_command(std::string(command) + " 2>&1 >/dev/full");
    EXPECT_EQ(outcome.code, failure) << command;
    testing::expect_says(outcome.out, {"to stdout"});
  }
}

TEST(CommandLine, GradientsAreOfF32OrOfTheLayersDType) {
  const testing::TemporaryFolder folder;
  for (const std::string& command :
       {std::string("bench "), std::string("plan "), "tune --cache " + folder.at("plans") + " "}) {
    const auto refused = [&](const std::string& dtypes, std::initializer_list<std::string> parts) {
      const Outcome outcome = tandem_command(command + "linear_weight_gradient -n 2 --shape 8,8,8 " + dtypes + " 2>&1");
      EXPECT_EQ(outcome.code, bad_command_line) << command << dtypes << outcome.out;
      testing::expect_says(outcome.out, parts);
    };
    refused("-d bf16 --gradient-dtype f16", {"a gradient of f16", "dtype bf16; allowed: f32 or bf16"});
    refused("-d f32 --gradient-dtype bf16", {"a gradient of bf16", "dtype f32; allowed: f32"});
    refused("--gradient-dtype sixteen", {"sixteen", "bf16"});
  }
}

TEST(CommandLine, ScalesAreOf8BitFloats) {
  const testing::TemporaryFolder folder;
  for (const std::string& command :
       {std::string("bench "), std::string("plan "), "tune --cache " + folder.at("plans") + " "}) {
    const auto refused = [&](const std::string& rest, std::initializer_list<std::string> parts) {
      const Outcome outcome = tandem_command(command + rest + " -n 2 --shape 8,8,8 2>&1");
      EXPECT_EQ(outcome.code, bad_command_line) << command << rest << outcome.out;
      testing::expect_says(outcome.out, parts);
    };
    refused("all_gather_linear -d f8e4m3 --scaling per_column", {"'per_column'", "none, per_tensor, per_row"});
    refused("all_gather_linear -d bf16 --scaling per_row", {"bf16 with scaling per_row", "f8e4m3 and f8e5m2"});
    refused("linear_reduce_scatter -d bf16 --out-dtype f32", {"a y of f32", "dtype bf16"});
    refused("linear_all_reduce -d f8e4m3 --weight-dtype f16", {"f8e4m3 by f16", "f8e4m3 or f8e5m2"});
    refused("linear_weight_gradient -d f8e4m3", {"-d is f8e4m3", "f32, bf16 and f16"});
    refused("linear_weight_gradient --fast-accum", {"no --fast-accum", "linear_all_reduce"});
  }
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
    refused(layer + "--activation relu", {"--activation is 'relu'", "none, gelu_erf, gelu_tanh"});
    refused(layer + "--activation gelu_erf --auxiliary both", {"--auxiliary is 'both'", "none, output, gradient"});
    refused(layer + "--auxiliary output", {"--auxiliary output", "allowed: --activation gelu_erf"});
    refused(command + "linear_all_reduce -n 2 --shape 8,8,8 --activation gelu_erf --auxiliary output",
            {"linear_all_reduce has no --auxiliary", "all_gather_linear"});
    for (const char* option : {"--layout NN", "--bias", "--activation gelu_erf"}) {
      refused(command + "linear_weight_gradient -n 2 --shape 8,8,8 " + option, {"linear_weight_gradient has no --"});
      refused(command + "all_reduce -n 2 " + option, {"all_reduce has no --"});
    }
  }
}

TEST_P(CommandsOfRanks, LinearOperationsMayRoundToTf32) {
  const std::string work = " linear_all_reduce" + ranks() + " --device host --shape 33,17,29 --tf32 --json -";
  const Outcome measured = tandem_command("bench --iters 2" + work);
  ASSERT_EQ(measured.code, success) << measured.out;
  EXPECT_EQ(nlohmann::json::parse(measured.out)["rows"][0]["type"], "tf32") << measured.out;
  const Outcome planned = tandem_command("plan" + work);
  ASSERT_EQ(planned.code, success) << planned.out;
  EXPECT_EQ(nlohmann::json::parse(planned.out)["type"], "tf32") << planned.out;
}

// TANDEM_DEVICE=cuda with a link is an error on every machine, so the variable is read where the option is not given.
TEST(CommandLine, TheDeviceOfTheCommandLineCountsAlsoIfItIsAuto) {
  const std::string command = "plan all_gather_linear -n 2 --shape 8,8,8 --json - ";
  EXPECT_NE(tandem_command(command + "--link 1us,1GB/s 2>/dev/null", "TANDEM_DEVICE=cuda").code, success);
  const Outcome outcome = tandem_command(command + "--device auto", "TANDEM_DEVICE=cuda");
  ASSERT_EQ(outcome.code, success) << outcome.out;
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["device"], device_count(DeviceType::cuda) > 0 ? "cuda" : "host");
}

INSTANTIATE_TEST_SUITE_P(Ranks, CommandsOfRanks, ::testing::Values(1, 2, 3), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace tandem::tools
