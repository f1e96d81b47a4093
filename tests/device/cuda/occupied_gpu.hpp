// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cuda_runtime_api.h>

namespace tandem::testing {

/// Every place that a GPU has for threads, taken: until this goes, or the limit has passed, no other kernel starts.
class OccupiedGpu {
 public:
  /// Returns when all of them are. `is_taken()` says whether it has come to that.
  OccupiedGpu(int device, std::chrono::milliseconds limit);
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
