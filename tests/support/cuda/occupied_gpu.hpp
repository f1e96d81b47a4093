// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cuda_runtime_api.h>

namespace tandem::testing {

/// Every place that a GPU has for threads, taken: until this goes, or the limit has passed, no other kernel starts.
class OccupiedGpu {
 public:
  static constexpr int most_block_threads = 1024;

  /// Returns when all of them are. `is_taken()` says whether it has come to that.
  /// With fewer threads a block than most, each multiprocessor has room for as many more, twice.
  OccupiedGpu(int device, std::chrono::milliseconds limit, int block_threads = most_block_threads);
  OccupiedGpu(const OccupiedGpu&) = delete;
  OccupiedGpu& operator=(const OccupiedGpu&) = delete;
  ~OccupiedGpu();

  /// Whether all are taken, and none was let go of.
  [[nodiscard]] bool is_taken() const;

 private:
  struct Flags;
  cudaStream_t stream_ = nullptr;
  Flags* flags_ = nullptr;  // in the host's memory
  unsigned blocks_ = 0;
};

}  // namespace tandem::testing
