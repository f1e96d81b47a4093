// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/device/gemm.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

#include "tools/linear_problem.hpp"
#include "tools/overlap_times.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {

/// The GEMM of `rank`: its entire shape, unsplit, in the operation's own layouts.
[[nodiscard]] GemmSpec local_product(const LinearProblem& problem, int rank);

/// Collective. Times an operation and its parts: the best unsplit local GEMM, the collective, and the two in sequence.
/// All are run in turns, so that they experience the same clocks. `stream` is the one that `timing` uses; `sequence`
/// and `overlap` were made by timing.queued for these repetitions. With `wire`, a copy of a rank's part to one peer is
/// also timed in turns.
[[nodiscard]] OverlapTimes measure_linear(const Team& team, const LinearProblem& problem, const QueuedRuns& overlap,
                                          const QueuedRuns& sequence, Timing& timing, StreamRef stream,
                                          const Repetitions& repetitions, bool wire = false);

}  // namespace tandem::tools
