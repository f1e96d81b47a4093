// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tandem/device/gemm.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

#include "tools/linear_problem.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {

/// The times of some rows of a local GEMM with each algorithm that its library offers.
struct ProductTimes {
  GemmSpec spec;
  std::int64_t m = 0;
  std::vector<std::string> algorithms;  ///< the first is the one that runs untuned
  std::vector<double> seconds;          ///< medians of the slowest rank's times
};

/// Collective. Times the GEMMs of a problem's plans, whole and in parts (`tuned_rows`), with each algorithm in turns,
/// on all ranks concurrently, for about `limit` seconds. The weights are not cached, as in a model, where those of
/// other layers are read in between. GEMMs with one algorithm are skipped, which on the host are all. `progress` is
/// told what is being measured.
[[nodiscard]] std::vector<ProductTimes> measure_products(const Team& team, const LinearProblem& problem, Timing& timing,
                                                         StreamRef stream, double limit,
                                                         const std::function<void(const std::string&)>& progress);

}  // namespace tandem::tools
