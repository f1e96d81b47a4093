// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace tandem::tools {

// What the demo needs wherever it runs: files that the build put into the program.

/// Tandem's sources and documents, one after the other.
[[nodiscard]] std::string_view default_text() noexcept;
/// scripts/plot_timeline.py.
[[nodiscard]] std::string_view plot_script() noexcept;

}  // namespace tandem::tools
