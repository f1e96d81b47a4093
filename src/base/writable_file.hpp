// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tandem {

/// Why a file cannot be opened with this access, O_RDWR or O_WRONLY, or created; empty if it can. A file that is there
/// stays as it is, and none is left where there was none.
[[nodiscard]] std::string why_not_writable(const std::string& path, int access);

}  // namespace tandem
