// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "tandem/device/gemm.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

#include "tools/linear_problem.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {

/// Seconds, medians over iterations of the slowest rank.
struct LinearTimes {
  double gemm = 0;
  double comm = 0;
  double sequence = 0;
  double overlap = 0;
  double overlap_p99 = 0;

  [[nodiscard]] double ideal() const { return std::max(gemm, comm); }
  [[nodiscard]] double exposed() const { return overlap - ideal(); }
  /// Of what could be hidden, how much was; 0 where there was nothing.
  [[nodiscard]] double hidden() const {
    const double most = std::min(gemm, comm);
    return most > 0 ? (sequence - overlap) / most : 0;
  }
};

/// What `rank` multiplies, of its whole shape, in one piece and in the operation's own layouts.
[[nodiscard]] GemmSpec local_product(const LinearProblem& problem, int rank);

/// Collective. Times an operation beside what it is made of: the best unsplit local product, the collective, and one
/// after the other. Parts, sequence and overlap run in turns, so that all of them meet the same clocks. `stream` is the
/// timing's.
[[nodiscard]] LinearTimes measure_linear(const Team& team, const LinearProblem& problem, const LinearRun& run,
                                         LinearPlanOfAnyKind& overlap, LinearPlanOfAnyKind& sequence, Timing& timing,
                                         StreamRef stream, int warmup, int iterations);

}  // namespace tandem::tools
