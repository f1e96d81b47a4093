// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "tandem/base/env.hpp"

namespace tandem {

/// Upper limit of a wait's timeout: longer than any program runs, yet a deadline that far from now does not overflow.
inline constexpr std::chrono::milliseconds longest_timeout = std::chrono::days(365);

/// Throws InvalidArgument if an Env, which a program may have filled in itself, holds a value that is not allowed.
void check_env(const Env& env);

}  // namespace tandem
