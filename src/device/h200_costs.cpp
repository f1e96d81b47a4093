// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/h200_costs.hpp"

#include "device/hopper_costs.hpp"

namespace tandem {

CostTable h200_costs() noexcept { return hopper_costs(132, 4.9e12); }  // as its driver reports

}  // namespace tandem
