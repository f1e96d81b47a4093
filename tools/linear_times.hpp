// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/device/gemm.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

#include "tools/linear_problem.hpp"
#include "tools/overlap_times.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {

/// What `rank` multiplies, of its whole shape, in one piece and in the operation's own layouts.
[[nodiscard]] GemmSpec local_product(const LinearProblem& problem, int rank);

/// Collective. Times an operation beside what it is made of: the best unsplit local product, the collective, and one
/// after the other. Parts, sequence and overlap run in turns, so that all of them meet the same clocks. `stream` is the
/// timing's, and `sequence` and `overlap` what it has queued for these repetitions. With `wire`, a copy of a rank's
/// part to one peer has turns, too.
[[nodiscard]] OverlapTimes measure_linear(const Team& team, const LinearProblem& problem, const QueuedRuns& overlap,
                                          const QueuedRuns& sequence, Timing& timing, StreamRef stream,
                                          const Repetitions& repetitions, bool wire = false);

}  // namespace tandem::tools
