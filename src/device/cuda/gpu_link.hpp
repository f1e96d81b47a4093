// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tandem::cuda {

/// What CUDA says of a pair of GPUs, and NVML of the wires between them. Throws DeviceError.
[[nodiscard]] std::string describe_gpu_link(int one, int other);

}  // namespace tandem::cuda
