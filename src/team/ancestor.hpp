// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace tandem {

/// The nearest process above this one that runs `program` (at most 15 letters, as many as the system keeps), as its id
/// and start time, which no other process of this machine has; empty if there is none.
[[nodiscard]] std::string ancestor_running(std::string_view program);

}  // namespace tandem
