// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tandem {

/// The first thing in a pattern that begins with % and that `expand_path` does not know, as in "%z"; empty if it knows
/// all of them.
[[nodiscard]] std::string unknown_in_path(const std::string& pattern);

/// Expands a path that a user gave once for all ranks: %h is the host, %p the process, %r the rank, and %% a %. Throws
/// InvalidArgument if anything else follows a %.
[[nodiscard]] std::string expand_path(const std::string& pattern, int rank);

}  // namespace tandem
