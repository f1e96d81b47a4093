// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "tandem/device/device.hpp"

namespace tandem {

/// Opens CUDA device `index`. Throws Unsupported (no driver, no kernels for this GPU), InvalidArgument (bad index).
[[nodiscard]] std::shared_ptr<Device> open_cuda_device(int index);

}  // namespace tandem
