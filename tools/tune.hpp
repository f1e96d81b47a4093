// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/command.hpp"

namespace tandem::tools {

/// `tandem tune`: measures the ways to run a linear operation, and keeps the fastest in the plan cache.
[[nodiscard]] int tune(Arguments arguments);

}  // namespace tandem::tools
