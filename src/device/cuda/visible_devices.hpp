// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace tandem::cuda {

/// How many GPUs this process sees, told by NVML and CUDA_VISIBLE_DEVICES. CUDA itself is not started, so that a
/// launcher or a test may ask and then fork: a child of a process that has started CUDA cannot use it. None where only
/// CUDA can say: NVML is missing, or devices are named by UUIDs.
[[nodiscard]] std::optional<int> count_visible_devices();

}  // namespace tandem::cuda
