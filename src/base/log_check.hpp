// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tandem/base/env.hpp"
#include "tandem/base/export.hpp"

namespace tandem {

/// Throws InvalidArgument where Log's constructor would, but creates no file.
TANDEM_API void check_log(LogLevel level, const std::string& file, int rank);

}  // namespace tandem
