// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace tandem::tools {

/// Tandem's sources and documents, concatenated. The build embeds them in the program, so that the demo has a text to
/// learn wherever it runs.
[[nodiscard]] std::string_view default_text() noexcept;

}  // namespace tandem::tools
