// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tandem {

/// The name of this machine; "unknown" if the system gives none.
[[nodiscard]] std::string host_name();

}  // namespace tandem
