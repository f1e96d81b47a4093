// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <source_location>

namespace tandem::cuda {

/// Throws DeviceError with the call, the error's name and text, and the device, unless `result` is cudaSuccess.
/// The thread's last error is cleared where the driver lets it be cleared: it has been told, and must not show up
/// again in a later call of somebody else's.
void check(cudaError_t result, const char* call, std::source_location where = std::source_location::current());

/// For destructors: says nothing, since there is nobody to tell; the next checked call meets a sticky error again.
void ignore(cudaError_t result) noexcept;

/// True for cudaSuccess, false for cudaErrorNotReady (which counts as no error); otherwise as `check`.
[[nodiscard]] bool ready(cudaError_t result, const char* call,
                         std::source_location where = std::source_location::current());

}  // namespace tandem::cuda
