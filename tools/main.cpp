// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "tools/bench.hpp"
#include "tools/command.hpp"
#include "tools/demo.hpp"
#include "tools/info.hpp"
#include "tools/plan.hpp"
#include "tools/provenance.hpp"
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
  if (words.empty()) {
    print_help();
    return bad_command_line;
  }
  if (words[0] == "help" && words.size() == 2 && !words[1].starts_with('-')) return dispatch({words[1], "--help"});
  const bool help = words[0] == "--help" || words[0] == "-h" || words[0] == "help";
  if (help || words[0] == "--version") {
    if (words.size() > 1) {
      throw tandem::InvalidArgument(tandem::format("'{}' is too much; allowed: tandem {}{}", words.back(), words[0],
                                                   words[0] == "help" ? ", or tandem help COMMAND" : " alone"));
    }
    if (help) {
      print_help();
    } else {
      std::printf("tandem %s\n", build().c_str());
    }
    return success;
  }
  std::string known;
  for (const Command& command : commands()) {
    if (words[0] == command.name) return command.run(Arguments(words).subspan(1));
    known += tandem::format("{}{}", known.empty() ? "" : ", ", command.name);
  }
  throw tandem::InvalidArgument(tandem::format("unknown command '{}'; known: {}", words[0], known));
}

/// A descriptor that this process opens must not get the number of a closed stdin, stdout or stderr, to which others
/// write. Writing to one that was closed still fails.
void occupy_standard_descriptors() {
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(standard, F_GETFD) < 0) ::open("/dev/null", O_RDONLY);  // gets the lowest free number, this one
  }
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_descriptors();
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto report = [&words](const char* why) {
    std::fputs(tandem::format("tandem {}: {}\n", words.empty() ? "" : words[0], why).c_str(), stderr);
    return failure;
  };
  constexpr const char* no_memory = "not enough host memory for this problem; a smaller one may fit";
  try {
    const int code = dispatch(words);
    // Commands do not check what they print: a full disk is noticed here at the latest.
    if (std::fflush(stdout) != 0) {
      throw tandem::Error(tandem::format("cannot write to stdout: {}", std::strerror(errno)));
    }
    if (std::ferror(stdout) != 0) throw tandem::Error("some of the output could not be written to stdout");
    return code;
  } catch (const tandem::InvalidArgument& error) {
    report(error.what());
    return bad_command_line;
  } catch (const std::bad_alloc&) {
    return report(no_memory);
  } catch (const std::length_error&) {  // of a vector for more than fits in any memory
    return report(no_memory);
  } catch (const std::exception& error) {
    return report(error.what());
  }
}
