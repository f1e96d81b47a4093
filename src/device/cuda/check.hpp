// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <source_location>

namespace tandem::cuda {

/// Throws DeviceError with the call, the error's name and text, and the device, unless `result` is cudaSuccess.
/// Also clears the thread's last error, unless it is sticky: it has been reported, and must not surface again in an
/// unrelated later call.
void check(cudaError_t result, const char* call, std::source_location where = std::source_location::current());

/// For destructors, which cannot throw: drops the error. If it is sticky, the next checked call reports it.
void ignore(cudaError_t result) noexcept;

/// True for cudaSuccess, false for cudaErrorNotReady, which is not an error; otherwise throws like `check`.
[[nodiscard]] bool ready(cudaError_t result, const char* call,
                         std::source_location where = std::source_location::current());

}  // namespace tandem::cuda
