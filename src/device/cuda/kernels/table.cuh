// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <initializer_list>

#include "tandem/base/dtype.hpp"

namespace tandem::cuda {

/// The two kernels for a pair of dtypes: `vector` moves `width` elements at a time and requires all pointers to be
/// 16-byte aligned; `scalar` accepts any alignment.
struct KernelRow {
  DType in;
  DType out;
  int width;
  const void* vector;
  const void* scalar;
};

template <std::size_t n>
[[nodiscard]] const KernelRow* find_kernel(const KernelRow (&table)[n], DType in, DType out) noexcept {
  const KernelRow* found =
      std::find_if(table, table + n, [=](const KernelRow& row) { return row.in == in && row.out == out; });
  return found == table + n ? nullptr : found;
}

/// Loads the kernels' code, up to the first failure. It stays loaded for the lifetime of the current context.
[[nodiscard]] inline cudaError_t load_kernels(std::initializer_list<const void*> kernels) {
  for (const void* kernel : kernels) {
    cudaFuncAttributes attributes;
    if (const cudaError_t result = cudaFuncGetAttributes(&attributes, kernel); result != cudaSuccess) return result;
  }
  return cudaSuccess;
}

template <std::size_t n> [[nodiscard]] cudaError_t load_kernels(const KernelRow (&table)[n]) {
  for (const KernelRow& row : table) {
    if (const cudaError_t result = load_kernels({row.vector, row.scalar}); result != cudaSuccess) return result;
  }
  return cudaSuccess;
}

/// Launches one thread per pack of elements; fewer threads, in a loop, if that would take more than `max_blocks`.
[[nodiscard]] inline cudaError_t launch_elements(const KernelRow& row, bool vector, std::int64_t count, int threads,
                                                 int max_blocks, void* argument, cudaStream_t stream) {
  const std::int64_t packs = vector ? count / row.width + 1 : count;
  const std::int64_t blocks = std::min<std::int64_t>((packs + threads - 1) / threads, max_blocks);
  void* parameters[] = {argument};
  return cudaLaunchKernel(vector ? row.vector : row.scalar, dim3(static_cast<unsigned>(blocks)),
                          dim3(static_cast<unsigned>(threads)), parameters, 0, stream);
}

}  // namespace tandem::cuda
