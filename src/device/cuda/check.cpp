// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/check.hpp"

#include "tandem/base/error.hpp"

#include "base/format.hpp"

namespace tandem::cuda {

void check(cudaError_t result, const char* call, std::source_location where) {
  if (result == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  int device = -1;
  static_cast<void>(cudaGetDevice(&device));
  throw DeviceError(
      format("{} on cuda:{}: {} ({})", call, device, cudaGetErrorName(result), cudaGetErrorString(result)), where);
}

void ignore(cudaError_t result) noexcept {
  if (result != cudaSuccess) static_cast<void>(cudaGetLastError());
}

bool ready(cudaError_t result, const char* call, std::source_location where) {
  if (result == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  check(result, call, where);
  return true;
}

}  // namespace tandem::cuda
