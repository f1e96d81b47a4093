// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "tools/bench.hpp"
#include "tools/command.hpp"
#include "tools/demo.hpp"
#include "tools/info.hpp"
#include "tools/plan.hpp"
#include "tools/run.hpp"
#include "tools/tune.hpp"
#include "tools/verify.hpp"

namespace {

using namespace tandem::tools;

const std::vector<Command>& commands() {
  static const std::vector<Command> all{
      {"run", "start a program as several ranks of this machine", run},
      {"info", "show devices, launcher and environment, and why something is not there", info},
#ifdef TANDEM_WITH_DEMO
      {"demo", "train a small language model over all ranks, check it, and draw its timeline", demo},
#endif
      {"bench", "measure an operation: how fast it is, and whether it is right", bench},
      {"verify", "compare random cases of the operations with an fp64 reference", verify},
      {"tune", "measure the ways to run a linear operation, and keep the fastest for its plans", tune},
      {"plan", "say what an operation would run, why, and the predicted times", plan},
  };
  return all;
}

void print_help() {
  std::fputs(
      "tandem: communication that hides behind compute\n\n"
      "Usage: tandem COMMAND [OPTIONS], or tandem --version\n\nCommands:\n",
      stdout);
  for (const Command& command : commands()) {
    std::fputs(tandem::format("  {:<8}{}\n", command.name, command.summary).c_str(), stdout);
  }
  std::fputs("\n`tandem COMMAND --help` says more, with an example.\n", stdout);
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    print_help();
    return words.empty() ? bad_command_line : success;
  }
  if (words[0] == "--version") {
    std::puts("tandem " TANDEM_VERSION);
    return success;
  }
  std::string known;
  for (const Command& command : commands()) {
    if (words[0] == command.name) return command.run(Arguments(words).subspan(1));
    known += tandem::format("{}{}", known.empty() ? "" : ", ", command.name);
  }
  throw tandem::InvalidArgument(tandem::format("unknown command '{}'; known: {}", words[0], known));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto report = [&words](const std::exception& error) {
    std::fputs(tandem::format("tandem {}: {}\n", words.empty() ? "" : words[0], error.what()).c_str(), stderr);
  };
  try {
    return dispatch(words);
  } catch (const tandem::InvalidArgument& error) {
    report(error);
    return bad_command_line;
  } catch (const std::exception& error) {
    report(error);
    return failure;
  }
}
