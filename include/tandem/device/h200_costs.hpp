// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/base/export.hpp"
#include "tandem/device/cost_table.hpp"

namespace tandem {

/// The Device::costs of an H200 on NVLink, for using the cost model on machines without such a GPU.
[[nodiscard]] TANDEM_API CostTable h200_costs() noexcept;

}  // namespace tandem
