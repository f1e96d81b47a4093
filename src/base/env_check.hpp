// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "tandem/base/env.hpp"

namespace tandem {

/// Upper limit of a wait's timeout: longer than any program runs, yet a deadline that far from now does not overflow.
inline constexpr std::chrono::milliseconds longest_timeout = std::chrono::days(365);

/// Upper limit of the threads of one GEMM.
inline constexpr int most_gemm_threads = 1024;

/// Whether such a link can be emulated: a latency from 0 to 60 s, and a bandwidth of 1 KB/s or more.
[[nodiscard]] bool is_link(const LinkOptions& link) noexcept;

/// Throws InvalidArgument if an Env, which a program may have filled in itself, holds a value that is not allowed.
void check_env(const Env& env);

}  // namespace tandem
