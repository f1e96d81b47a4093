// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <string>

#include "tandem/base/error.hpp"

namespace tandem::testing {

/// The driver's function of that name, as of that version of CUDA. Tests do not link libcuda, nor does the library.
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
