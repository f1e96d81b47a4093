// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

#include "tools/linear_problem.hpp"

namespace tandem::tools {

/// The rows, and the columns, of a rank's output that are compared where not all are.
inline constexpr std::int64_t sampled_lines = 64;

/// Whether every element of a rank's output is compared: for small outputs only, since an fp64 product takes its time.
[[nodiscard]] bool is_checked_whole(const LinearProblem& problem, int rank);

/// Collective. Calls `body`, which queues runs, over poison, so that no earlier result can be taken for this one's, and
/// counts the wrong elements of all ranks' outputs, and of what auxiliaries keep. `corrupted`: one of this rank's is
/// made wrong first (see `corrupts`).
[[nodiscard]] std::int64_t wrong_elements(const Team& team, const LinearProblem& problem, LinearRun& run,
                                          const std::function<void()>& body, StreamRef stream, bool corrupted);

}  // namespace tandem::tools
