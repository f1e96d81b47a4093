// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/command.hpp"

namespace tandem::tools {

/// `tandem plan`: what an operation would run, why, and how long that is predicted to take; nothing is run.
[[nodiscard]] int plan(Arguments arguments);

}  // namespace tandem::tools
