// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tandem {

/// The number of CUDA devices that this process sees; 0 without a driver. Avoids initializing CUDA if possible, so that
/// the process may still fork.
[[nodiscard]] int cuda_device_count() noexcept;
/// Why `cuda_device_count` returns 0; empty if it does not.
[[nodiscard]] std::string why_no_cuda_device();

}  // namespace tandem
