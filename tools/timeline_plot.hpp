// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace tandem::tools {

/// Draws timelines into one PNG with scripts/plot_timeline.py, which is embedded in the program. Returns an error of
/// one line, or an empty string.
[[nodiscard]] std::string plot_timelines(const std::vector<std::string>& timelines, const std::string& png,
                                         const std::string& title);

}  // namespace tandem::tools
