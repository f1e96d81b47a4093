// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace tandem {

/// The nearest ancestor process that runs `program` (at most 15 characters: the kernel truncates names to that), as
/// text with its id and start time, which identifies it on this machine; empty if there is none.
[[nodiscard]] std::string ancestor_running(std::string_view program);

}  // namespace tandem
