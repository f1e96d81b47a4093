// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace tandem::tools {

/// Tandem's sources and documents, one after the other. The build puts them into the program, so that the demo has
/// something to learn wherever it runs.
[[nodiscard]] std::string_view default_text() noexcept;

}  // namespace tandem::tools
