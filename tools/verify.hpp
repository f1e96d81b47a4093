// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/command.hpp"

namespace tandem::tools {

/// `tandem verify`: runs random cases of the operations, and compares every element with an fp64 reference.
[[nodiscard]] int verify(Arguments arguments);

}  // namespace tandem::tools
