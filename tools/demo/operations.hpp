// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tandem/team/world.hpp"

#include "language_model/model.hpp"
#include "tools/linear_times.hpp"

namespace tandem::tools {

/// One of the overlapped operations of a block, with the shape that it has in training.
struct TimedOperation {
  std::string name;  ///< "up: forward"
  LinearProblem problem;
  LinearChoice choice;
  OverlapTimes times;
};

/// Collective. Times every overlapped operation of a model's block, on random data of the shapes used in training.
[[nodiscard]] std::vector<TimedOperation> time_operations(const World& world,
                                                          const language_model::ModelOptions& options, int iterations);

/// The lines of a table; the first is its header.
[[nodiscard]] std::vector<std::string> table(const std::vector<TimedOperation>& operations);

}  // namespace tandem::tools
