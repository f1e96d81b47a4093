// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "tandem/device/device.hpp"

#include "tools/collective_run.hpp"

namespace tandem::tools {

/// Predicts the time of a collective that runs the algorithm `runs` on tensors of this form, from a device's constants,
/// which the linear operations' cost model uses too: a latency for each round of transfers, the bytes over one rank's
/// link, and those read and written in its own memory. Nothing is measured, and no time is added for late ranks.
/// `bytes` is as in `sized_problem`.
[[nodiscard]] double predict_seconds(Operation operation, std::string_view runs, const Form& form, int ranks,
                                     std::int64_t bytes, const CostTable& costs);

}  // namespace tandem::tools
