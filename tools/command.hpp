// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>

namespace CLI {
class App;  // <CLI/CLI.hpp> takes seconds to compile: only sources include it
}

namespace tandem::tools {

/// What a command line gets after the command's name.
using Arguments = std::span<const std::string>;

// Exit codes of every command.
inline constexpr int success = 0;
inline constexpr int failure = 1;           ///< it ran, and something was wrong
inline constexpr int bad_command_line = 2;  ///< nothing ran

/// One of `tandem`'s commands. `run` returns the exit code; an InvalidArgument that it throws is a bad command line,
/// any other Error a failure.
struct Command {
  const char* name;
  const char* summary;
  int (*run)(Arguments arguments);
};

/// Parses a command's arguments. An exit code if that is all there is to do: the help was asked for and printed, or the
/// arguments are wrong and it was said why.
[[nodiscard]] std::optional<int> parse(CLI::App& app, Arguments arguments);

/// Draws a line on stderr over the last one, where that is a terminal; an empty line clears it.
void show_progress(const std::string& line);

}  // namespace tandem::tools
