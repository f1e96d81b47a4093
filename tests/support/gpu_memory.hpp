// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "tandem/team/file_descriptor.hpp"

namespace tandem::testing {

/// Watches what processes leave in the GPUs' memory. NVML tells, so that this process does without CUDA, and can still
/// fork ranks.
class GpuMemoryWatch {
 public:
  /// Notes what is in use now.
  GpuMemoryWatch();
  GpuMemoryWatch(const GpuMemoryWatch&) = delete;
  GpuMemoryWatch& operator=(const GpuMemoryWatch&) = delete;
  ~GpuMemoryWatch();

  /// Why nothing can be said of what is left: nobody tells, or other processes were there before. Empty if it can.
  [[nodiscard]] const std::string& why_blind() const noexcept { return why_blind_; }
  /// Which GPUs have more in use than at first, and how much; empty if none has, or if another test has ranks on these
  /// GPUs now. The driver clears up behind a process that has ended: looks again and again until `patience` is over.
  [[nodiscard]] std::string left(std::chrono::milliseconds patience) const;

  /// What the fullest GPU has left now; 0 where nobody tells.
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
  std::vector<FileDescriptor> locks_;  // one of each GPU, shared by all tests that have ranks there now
};

}  // namespace tandem::testing
