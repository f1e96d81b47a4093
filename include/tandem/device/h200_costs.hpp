// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/base/export.hpp"
#include "tandem/device/device.hpp"

namespace tandem {

/// What Device::costs says of an H200 on NVLink, for a caller that asks the cost model where there is no such GPU.
[[nodiscard]] TANDEM_API CostTable h200_costs() noexcept;

}  // namespace tandem
