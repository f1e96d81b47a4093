// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/command.hpp"

namespace tandem::tools {

/// `tandem info`: what this machine, this build and this environment offer, and why something is not there.
[[nodiscard]] int info(Arguments arguments);

}  // namespace tandem::tools
