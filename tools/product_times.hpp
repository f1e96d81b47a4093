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

/// How long some rows of a local product took by each algorithm that its library offers.
struct ProductTimes {
  GemmSpec spec;
  std::int64_t m = 0;
  std::vector<std::string> algorithms;  ///< in front what runs untuned
  std::vector<double> seconds;          ///< medians of the slowest rank's
};

/// Collective. Times what the plans of a problem multiply, whole and in pieces (`tuned_rows`), by each algorithm in
/// turns, on all ranks at once, for about `limit` seconds. No cache holds the weights, as in a model, whose other
/// layers' have come in between. Only what has several algorithms: on the host nothing has. `progress` is told what is
/// being measured.
[[nodiscard]] std::vector<ProductTimes> measure_products(const Team& team, const LinearProblem& problem, Timing& timing,
                                                         StreamRef stream, double limit,
                                                         const std::function<void(const std::string&)>& progress);

}  // namespace tandem::tools
