// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/command.hpp"

namespace tandem::tools {

/// `tandem demo`: trains a small language model over all ranks, checks it against one rank, and draws a timeline of
/// each rank.
[[nodiscard]] int demo(Arguments arguments);

}  // namespace tandem::tools
