// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "tandem/base/env.hpp"

namespace tandem {

/// Of a wait. Longer than any program runs, and short enough that a deadline so far from now is still a time.
inline constexpr std::chrono::milliseconds longest_timeout = std::chrono::days(365);

/// Throws InvalidArgument if an Env that a program has filled in by itself holds what its variable may not be.
void check_env(const Env& env);

}  // namespace tandem
