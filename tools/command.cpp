// SPDX-License-Identifier: Apache-2.0
#include "tools/command.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <unistd.h>
#include <vector>

#include "tandem/base/error.hpp"

#include "base/format.hpp"

namespace tandem::tools {

std::optional<int> parse(CLI::App& app, Arguments arguments) {
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes them in reverse order
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    std::fputs(format("{}\n", app.help("tandem")).c_str(), stdout);
    return success;
  } catch (const CLI::ExtrasError&) {
    const std::string first = app.remaining(true).front();
    throw InvalidArgument(format("{} '{}'; `tandem {} --help` shows what there is",
                                 first.starts_with("-") ? "unknown option" : "unexpected argument", first,
                                 app.get_name()));
  } catch (const CLI::ArgumentMismatch& error) {
    // It begins with the option's name.
    const std::string why = error.what();
    const CLI::Option* const option = app.get_option_no_throw(why.substr(0, why.find(':')));
    const std::string said =
        option != nullptr && option->get_expected_max() == 1
            ? format("{} takes one {}, and is given once", option->get_name(false, true), option->get_type_name())
            : why;
    throw InvalidArgument(format("{}; `tandem {} --help` shows what there is", said, app.get_name()));
  } catch (const CLI::ParseError& error) {
    throw InvalidArgument(format("{}; `tandem {} --help` shows what there is", error.what(), app.get_name()));
  }
}

void show_progress(const std::string& line) {
  if (isatty(STDERR_FILENO) == 1) std::fputs(format("\r\x1b[K{}", line).c_str(), stderr);
}

}  // namespace tandem::tools
