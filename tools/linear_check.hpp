// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

#include "tools/linear_problem.hpp"

namespace tandem::tools {

/// How many rows, and columns, of a rank's output are compared if not all are.
inline constexpr std::int64_t sampled_lines = 64;

/// Whether every element of a rank's output is compared: for small outputs only, since an fp64 GEMM is slow.
[[nodiscard]] bool is_checked_whole(const LinearProblem& problem, int rank);

/// Collective. Calls `body`, which queues runs, with poisoned outputs, so that an earlier result cannot be mistaken for
/// this one, and counts the wrong elements of all ranks' outputs and auxiliary outputs. `corrupted`: first makes one of
/// this rank's elements wrong (see `corrupts`).
[[nodiscard]] std::int64_t wrong_elements(const Team& team, const LinearProblem& problem, LinearRun& run,
                                          const std::function<void()>& body, StreamRef stream, bool corrupted);

}  // namespace tandem::tools
