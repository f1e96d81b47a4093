// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>

namespace CLI {
class App;  // <CLI/CLI.hpp> takes seconds to compile: only source files include it
}

namespace tandem::tools {

/// The arguments that follow the command's name.
using Arguments = std::span<const std::string>;

// Exit codes of every command.
inline constexpr int success = 0;
inline constexpr int failure = 1;           ///< the command ran, but something was wrong
inline constexpr int bad_command_line = 2;  ///< nothing ran

/// One of `tandem`'s commands. `run` returns the exit code; if it throws InvalidArgument, the command line was wrong;
/// any other Error is a failure.
struct Command {
  const char* name;
  const char* summary;
  int (*run)(Arguments arguments);
};

/// Parses a command's arguments. Returns an exit code if the command is done, because help was requested and printed.
/// Throws InvalidArgument if the arguments are wrong.
[[nodiscard]] std::optional<int> parse(CLI::App& app, Arguments arguments);

/// Replaces the current line on stderr, if that is a terminal; an empty line clears it.
void show_progress(const std::string& line);

}  // namespace tandem::tools
