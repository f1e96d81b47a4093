// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tandem/base/env.hpp"

#include "tools/command.hpp"

namespace tandem::tools {

// What somebody needs to know of a figure in order to measure it again.

/// The version and the commit: "0.1.0, commit d1e2d61".
[[nodiscard]] std::string build();
/// The compiler of this command line: "GCC 12.2.0".
[[nodiscard]] std::string compiler();
/// Where tuned choices are kept, and how many there are; `path` is Env::plan_cache.
[[nodiscard]] std::string plan_cache(const std::string& path);
/// The rows of Env's table, one for each variable, with its value here; null if it is not set.
[[nodiscard]] nlohmann::ordered_json environment_rows();
/// All of it, for the JSON of what a command measures: its command line, as one types it, the time of day, and the
/// variables that are set, too.
[[nodiscard]] nlohmann::ordered_json provenance(const char* command, Arguments arguments, const Env& env);

}  // namespace tandem::tools
