// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "tandem/device/device.hpp"

#include "tools/collective_run.hpp"

namespace tandem::tools {

/// How long a collective is predicted to take that runs one of its algorithms on tensors of one form. From a device's
/// constants, as the linear operations' cost model takes them: a latency for each round of data over the links, the
/// bytes that one rank's link carries, and what is read and written in its own memory. Nothing is measured, and nobody
/// waits for late ranks. `bytes` are as `sized_problem` counts them.
[[nodiscard]] double predict_seconds(Operation operation, std::string_view runs, const Form& form, int ranks,
                                     std::int64_t bytes, const CostTable& costs);

}  // namespace tandem::tools
