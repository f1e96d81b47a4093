// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tandem {

/// Expands a path that a user gave once for all ranks: %h is the host, %p the process, %r the rank.
[[nodiscard]] std::string expand_path(const std::string& pattern, int rank);

}  // namespace tandem
