// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/device/device.hpp"

namespace tandem {

/// Of a Hopper GPU on NVLink 4 with so many multiprocessors, whose memory's pins can move so much.
[[nodiscard]] CostTable hopper_costs(int multiprocessors, double memory_bytes_per_second) noexcept;

}  // namespace tandem
