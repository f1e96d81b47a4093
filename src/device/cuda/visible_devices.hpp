// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tandem {

/// How many CUDA devices this process sees; 0 without a driver. Does not start CUDA where that can be avoided, so that
/// the process may still fork.
[[nodiscard]] int cuda_device_count() noexcept;
/// Why `cuda_device_count` says 0; empty if it does not.
[[nodiscard]] std::string why_no_cuda_device();

}  // namespace tandem
