// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/command.hpp"

namespace tandem::tools {

/// `tandem info`: shows what this machine, build and environment offer, and why something is unavailable.
[[nodiscard]] int info(Arguments arguments);

}  // namespace tandem::tools
