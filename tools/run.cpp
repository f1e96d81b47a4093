// SPDX-License-Identifier: Apache-2.0
#include "tools/run.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "tandem/base/env.hpp"
#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "tools/launcher.hpp"
#include "tools/parse.hpp"

namespace tandem::tools {
namespace {

/// Adds the program after the options, which CLI11 does not know, to the usage.
class HelpOfRun : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    return usage.insert(usage.find_last_not_of('\n') + 1, " -n N [--] PROGRAM [ARGUMENTS]");
  }
};

constexpr std::int64_t most_processes = 4096;

/// Passes an option's value to the ranks as an environment variable, once Env has accepted it.
void hand_over(LaunchOptions& options, const std::string& option, const std::string& variable,
               const std::string& value) {
  if (value.empty()) throw InvalidArgument(format("{} is given as an empty text", option));
  try {
    static_cast<void>(Env::from([&](const std::string& name) -> std::optional<std::string> {
      return name == variable ? std::optional<std::string>(value) : std::nullopt;
    }));
  } catch (const InvalidArgument& error) {  // it begins with the variable, which the user has not given
    const std::string why = error.what();
    throw InvalidArgument(why.starts_with(variable) ? option + why.substr(variable.size()) : why);
  }
  options.environment.emplace_back(variable, value);
}

}  // namespace

int run(Arguments arguments) {
  LaunchOptions options;
  CLI::App app("Starts a program as several ranks of this machine, and stays until they have ended.", "run");
  app.footer(
      "After the options: the program and its arguments. Rank 0 reads this command's input unless that is a terminal; "
      "the others read nothing. What a rank starts ends with it; all ranks end with this "
      "command, even if it is killed. Its exit code is that of the rank that failed first (127 if there is no such "
      "program, 126 if it cannot be started); then stderr says how each rank ended.\nExample: tandem run -n 4 --device "
      "host -- ./prog --steps 100");
  app.formatter(std::make_shared<HelpOfRun>());
  app.prefix_command();
  bool counted = false;
  app.add_option_function<std::string>(
         "-n,--ranks",
         [&](const std::string& text) {
           options.ranks = static_cast<int>(parse_integer("-n", text, 1, most_processes));
           counted = true;
         },
         "how many ranks (required)")
      ->type_name("N");
  app.add_option_function<std::string>(
         "--device", [&](const std::string& text) { hand_over(options, "--device", "TANDEM_DEVICE", text); },
         "auto, host or cuda")
      ->type_name("NAME");
  app.add_option_function<std::string>(
         "--on-failure",
         [&](const std::string& text) {
           options.stop_on_failure = parse_name("--on-failure", text, {"stop", "continue"}) == 0;
         },
         "when a rank fails: stop the others (default), or let them continue")
      ->type_name("stop|continue");
  app.add_option_function<std::string>(
         "--timeout", [&](const std::string& text) { hand_over(options, "--timeout", "TANDEM_TIMEOUT", text); },
         "the deadline of each wait, such as 250ms, 10s, 5m or 2h (default: 60s)")
      ->type_name("TIME");
  app.add_option_function<std::string>(
         "--link", [&](const std::string& text) { hand_over(options, "--link", "TANDEM_LINK", text); },
         "host: emulate a link between the ranks, as in 20us,1GB/s")
      ->type_name("LATENCY,BANDWIDTH");
  app.add_option_function<std::string>(
         "--bind", [&](const std::string& text) { options.bind = parse_name("--bind", text, {"none", "core"}) == 1; },
         "core: each rank keeps to its share of the CPUs; none (default): the system moves ranks about")
      ->type_name("none|core");
  app.add_flag_callback("--no-prefix", [&] { options.prefix = false; }, "leave the ranks' output as it is");
  app.add_flag("--report", options.report, "say how each rank ended, even if none failed");
  if (const auto code = parse(app, arguments)) return *code;

  options.program = app.remaining();
  if (!options.program.empty() && options.program[0] == "--") options.program.erase(options.program.begin());
  if (!options.program.empty() && options.program[0].starts_with('-')) {
    throw InvalidArgument(format("unknown option '{}'; `tandem run --help` shows what there is", options.program[0]));
  }
  if (!counted) throw InvalidArgument("-n is missing: how many ranks? For example: tandem run -n 4 -- ./prog");
  if (options.program.empty()) {
    throw InvalidArgument("a program is missing; for example: tandem run -n 4 -- ./prog --steps 100");
  }
  try {
    return launch(options);
  } catch (const NotStarted& error) {
    std::fputs(format("tandem run: {}\n", error.what()).c_str(), stderr);
    return error.code();
  }
}

}  // namespace tandem::tools
