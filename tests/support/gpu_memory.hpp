// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "tandem/team/file_descriptor.hpp"

namespace tandem::testing {

/// Detects memory that processes leave allocated on the GPUs. It asks NVML instead of CUDA, so that this process can
/// still fork ranks.
class GpuMemoryWatch {
 public:
  /// Records what is in use now.
  GpuMemoryWatch();
  GpuMemoryWatch(const GpuMemoryWatch&) = delete;
  GpuMemoryWatch& operator=(const GpuMemoryWatch&) = delete;
  ~GpuMemoryWatch();

  /// Why leaks cannot be detected: NVML is missing, or other processes already use the GPUs. Empty if they can.
  [[nodiscard]] const std::string& why_blind() const noexcept { return why_blind_; }
  /// Which GPUs have more in use than at first, and how much; empty if none has, or if another test has ranks on these
  /// GPUs now. The driver frees the memory of a process after it has ended: polls for up to `patience`.
  [[nodiscard]] std::string left(std::chrono::milliseconds patience) const;

  /// The free memory of the fullest GPU now; 0 if NVML is missing.
  [[nodiscard]] static std::size_t free_bytes();

 private:
  struct Use {
    unsigned gpu;
    std::size_t bytes;
    std::size_t free_bytes;
    unsigned processes;
  };
  class Nvml;

  void note();

  std::string why_blind_;
  std::vector<Use> before_;
  std::vector<FileDescriptor> locks_;  // one for each GPU; all tests with ranks there share it
};

}  // namespace tandem::testing
