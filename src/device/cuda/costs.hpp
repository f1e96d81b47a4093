// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/device/device.hpp"

#include "device/cuda/properties.hpp"

namespace tandem::cuda {

/// Of a Hopper GPU on NVLink 4 (docs/performance.md says where the constants are from).
[[nodiscard]] CostTable costs_of(const Properties& properties) noexcept;

}  // namespace tandem::cuda
