// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "tandem/device/device.hpp"

namespace tandem {

/// Opens CUDA device `index`. Throws Unsupported (no driver, no device, built for other GPUs), InvalidArgument (index).
[[nodiscard]] std::shared_ptr<Device> open_cuda_device(int index);
/// How many CUDA devices this process sees; 0 without a driver. Does not start CUDA where that can be avoided, so that
/// the process may still fork.
[[nodiscard]] int cuda_device_count() noexcept;
/// Why `cuda_device_count` says 0; empty if it does not.
[[nodiscard]] std::string why_no_cuda_device();

}  // namespace tandem
