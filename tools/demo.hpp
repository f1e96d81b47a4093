// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/command.hpp"

namespace tandem::tools {

/// `tandem demo`: trains a small language model over all ranks, checks it against one rank, and draws what each rank
/// did when.
[[nodiscard]] int demo(Arguments arguments);

}  // namespace tandem::tools
