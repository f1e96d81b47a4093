// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/command.hpp"

namespace tandem::tools {

/// `tandem run`: starts a program as several ranks of this node, and waits until they have ended.
[[nodiscard]] int run(Arguments arguments);

}  // namespace tandem::tools
