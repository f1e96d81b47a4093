// SPDX-License-Identifier: Apache-2.0
#include "tools/timeline_plot.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/team/file_descriptor.hpp"

#include "base/format.hpp"
#include "tools/embed.hpp"

TANDEM_EMBED(tandem_plot_script, TANDEM_PLOT_SCRIPT);

extern "C" {
[[gnu::visibility("hidden")]] extern const char tandem_plot_script[];
[[gnu::visibility("hidden")]] extern const char tandem_plot_script_end[];
}

namespace tandem::tools {
namespace {

constexpr int python_lacks = 3;  // the script's exit code if it cannot import what it needs

std::pair<FileDescriptor, FileDescriptor> open_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw Error(format("cannot make a pipe: {}", std::strerror(errno)));
  return {FileDescriptor::from_native_handle(ends[0]), FileDescriptor::from_native_handle(ends[1])};
}

struct Outcome {
  int code = 0;        ///< 127: the program does not exist
  std::string output;  ///< its stdout and stderr
};

/// Runs a program that reads all of `input` before it prints anything.
Outcome run_program(std::vector<std::string> words, std::string_view input) {
  auto [input_end, write_end] = open_pipe();
  auto [read_end, output_end] = open_pipe();
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input_end.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output_end.get(), STDERR_FILENO);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return {127, std::strerror(error)};
  input_end = {};
  output_end = {};

  // If the program ends early, the write should fail instead of killing this process.
  const auto previous = std::signal(SIGPIPE, SIG_IGN);
  while (!input.empty()) {
    const ssize_t written = write(write_end.get(), input.data(), input.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    input.remove_prefix(static_cast<std::size_t>(written));
  }
  write_end = {};
  std::signal(SIGPIPE, previous);

  Outcome outcome;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t got = read(read_end.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    outcome.output.append(part.data(), static_cast<std::size_t>(got));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

std::string plot_timelines(const std::vector<std::string>& timelines, const std::string& png,
                           const std::string& title) {
  std::string why;
  // A Python that the user installed may lack modules that the system's has.
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    std::vector<std::string> words{python, "-", "--out", png, "--title", title};
    words.insert(words.end(), timelines.begin(), timelines.end());
    const Outcome outcome = run_program(std::move(words), {tandem_plot_script, tandem_plot_script_end});
    if (outcome.code == 0) return "";
    const bool lacks = outcome.code == 127 || outcome.code == python_lacks;
    if (why.empty() || !lacks) why = outcome.code == 127 ? "python3 was not found" : last_line(outcome.output);
    if (!lacks) break;
  }
  return why;
}

}  // namespace tandem::tools
