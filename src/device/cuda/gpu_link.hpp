// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tandem::cuda {

/// Describes a pair of GPUs: peer access as CUDA reports it, the physical link as NVML does. Throws DeviceError.
[[nodiscard]] std::string describe_gpu_link(int one, int other);

}  // namespace tandem::cuda
