// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/device/cost_table.hpp"

namespace tandem {

/// Costs of a Hopper GPU on NVLink 4 with this many SMs and this theoretical peak memory bandwidth.
[[nodiscard]] CostTable hopper_costs(int multiprocessors, double memory_bytes_per_second) noexcept;

}  // namespace tandem
