// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tandem/device/device.hpp"

#include "tools/collective_run.hpp"

namespace tandem::tools {

/// What a collective would run on tensors of one form, and how long that is predicted to take.
struct CollectivePrediction {
  std::string algorithm;
  double seconds = 0;
};

/// From a device's constants, as the linear operations' cost model takes them: a latency for each round of data over
/// the links, the bytes that one rank's link carries, and what is read and written in its own memory. Nothing is
/// measured, and nobody waits for late ranks. `algorithm` is one that takes the form, or "auto"; `bytes` are as
/// `sized_problem` counts them; `loan_cost` is the team's, where ranks can read each other's private
/// memory.
[[nodiscard]] CollectivePrediction predict(Operation operation, const std::string& algorithm, const Form& form,
                                           int ranks, std::int64_t bytes, const Device& device,
                                           std::optional<double> loan_cost);

}  // namespace tandem::tools
