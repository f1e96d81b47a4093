// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cuda_runtime_api.h>

namespace tandem::testing {

/// Occupies a GPU's multiprocessors: until this is destroyed or the limit has passed, no other kernel can start.
class OccupiedGpu {
 public:
  static constexpr int most_block_threads = 1024;

  /// Returns when all are occupied, or at the limit: see `is_taken`. With slightly smaller blocks, each multiprocessor
  /// (of 2048 threads) still gets two of them, and keeps twice the difference free.
  OccupiedGpu(int device, std::chrono::milliseconds limit, int block_threads = most_block_threads);
  OccupiedGpu(const OccupiedGpu&) = delete;
  OccupiedGpu& operator=(const OccupiedGpu&) = delete;
  ~OccupiedGpu();

  /// Whether all are occupied now, and none has been released.
  [[nodiscard]] bool is_taken() const;

 private:
  struct Flags;
  cudaStream_t stream_ = nullptr;
  Flags* flags_ = nullptr;  // in host memory
  unsigned blocks_ = 0;
};

}  // namespace tandem::testing
