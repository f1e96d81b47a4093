// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/copies.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "device/cuda/capture.hpp"
#include "device/cuda/check.hpp"

namespace tandem::cuda {
namespace {

// The first driver with cudaMemcpyBatchAsync.
constexpr int batch_driver_version = 12080;
// Maximum number of copies in one batch; a longer list is split into several.
constexpr std::size_t max_batch = 64;

}  // namespace

void enqueue_copy(cudaStream_t stream, const Copy& copy, const Properties& properties) {
  if (copy.bytes == 0 || copy.rows == 0) return;
  const bool dense = copy.rows == 1 || (copy.dst_pitch == copy.bytes && copy.src_pitch == copy.bytes);
  if (dense) {
    check(cudaMemcpyAsync(copy.dst, copy.src, copy.bytes * copy.rows, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
    return;
  }
  if (std::max(copy.dst_pitch, copy.src_pitch) <= properties.max_pitch) {
    check(cudaMemcpy2DAsync(copy.dst, copy.dst_pitch, copy.src, copy.src_pitch, copy.bytes, copy.rows,
                            cudaMemcpyDefault, stream),
          "cudaMemcpy2DAsync");
    return;
  }
  // The pitch exceeds what cudaMemcpy2DAsync accepts (2 GiB).
  for (std::size_t row = 0; row < copy.rows; ++row) {
    check(cudaMemcpyAsync(static_cast<std::byte*>(copy.dst) + row * copy.dst_pitch,
                          static_cast<const std::byte*>(copy.src) + row * copy.src_pitch, copy.bytes, cudaMemcpyDefault,
                          stream),
          "cudaMemcpyAsync");
  }
}

void enqueue_copies(cudaStream_t stream, std::span<const Copy> copies, const Properties& properties) {
#if CUDART_VERSION >= 13000
  // A batch can neither be captured (error 900) nor queued on the legacy stream. A single copy is batched too:
  // otherwise a kernel would do it if source and destination are on this GPU.
  const bool batch = !copies.empty() && properties.driver_version >= batch_driver_version && stream != nullptr &&
                     stream != cudaStreamLegacy && capture_of(stream).graph == nullptr;
  if (batch) {
    std::array<void*, max_batch> dsts;
    std::array<const void*, max_batch> srcs;
    std::array<std::size_t, max_batch> sizes;
    std::size_t count = 0;
    const auto flush = [&] {
      if (count == 0) return;
      cudaMemcpyAttributes attributes{};
      attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
      attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
      std::size_t from = 0;
      check(cudaMemcpyBatchAsync(dsts.data(), srcs.data(), sizes.data(), count, &attributes, &from, 1, stream),
            "cudaMemcpyBatchAsync");
      count = 0;
    };
    for (const Copy& copy : copies) {
      if (copy.bytes == 0 || copy.rows == 0) continue;
      if (copy.rows != 1) {
        enqueue_copy(stream, copy, properties);  // a batch has no strided copies
        continue;
      }
      dsts[count] = copy.dst;
      srcs[count] = copy.src;
      sizes[count] = copy.bytes;
      if (++count == max_batch) flush();
    }
    flush();
    return;
  }
#endif
  for (const Copy& copy : copies) enqueue_copy(stream, copy, properties);
}

}  // namespace tandem::cuda
