// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tandem {

/// A path that a user gave for all ranks at once: %h becomes the host, %p the process, %r the rank.
[[nodiscard]] std::string expand_path(const std::string& pattern, int rank);

}  // namespace tandem
