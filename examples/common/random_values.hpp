// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/base/tensor_view.hpp"
#include "tandem/device/device.hpp"

namespace tandem::examples {

/// Values that are random enough for a GPU to need the power that it needs for real ones, of this deviation; equal
/// seeds give equal values on all ranks.
void fill_randomly(Device& device, const TensorView& view, unsigned seed, float deviation);

}  // namespace tandem::examples
