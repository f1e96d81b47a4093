// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/device_memory.hpp"

#include <cuda_runtime_api.h>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "device/cuda/check.hpp"

namespace tandem::cuda {

void* allocate_device_memory(std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t result = cudaMalloc(&memory, bytes);
  if (result == cudaErrorMemoryAllocation) {
    ignore(result);
    int device = -1;
    std::size_t available = 0;
    std::size_t total = 0;
    ignore(cudaGetDevice(&device));
    ignore(cudaMemGetInfo(&available, &total));
    throw OutOfMemory(
        format("cudaMalloc of {} bytes on cuda:{}: {} of {} bytes are free", bytes, device, available, total));
  }
  check(result, "cudaMalloc");
  return memory;
}

void free_device_memory(void* memory) noexcept { ignore(cudaFree(memory)); }

}  // namespace tandem::cuda
