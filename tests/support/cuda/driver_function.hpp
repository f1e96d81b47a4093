// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <string>

#include "tandem/base/error.hpp"

namespace tandem::testing {

/// A function of the driver's by name, as that version of CUDA has it. Tests link no libcuda, as the library does not.
template <typename Function> Function driver_function(const char* name, [[maybe_unused]] unsigned int version = 12000) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (error != cudaSuccess || found == nullptr) throw Error(std::string("the driver has no ") + name);
  return reinterpret_cast<Function>(found);
}

}  // namespace tandem::testing

#define TANDEM_DRIVER(name) ::tandem::testing::driver_function<decltype(&name)>(#name)
#define TANDEM_DRIVER_SINCE(version, name) ::tandem::testing::driver_function<decltype(&name)>(#name, version)
