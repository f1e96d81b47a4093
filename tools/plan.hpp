// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/command.hpp"

namespace tandem::tools {

/// `tandem plan`: shows what an operation would run, why, and its predicted time; nothing is run.
[[nodiscard]] int plan(Arguments arguments);

}  // namespace tandem::tools
