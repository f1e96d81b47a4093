// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/device/gpu_clock.hpp"

namespace tandem::cuda {

/// NVML, the library behind nvidia-smi: loaded and started while this lives. It knows the machine's (or container's)
/// GPUs, and does not start CUDA.
class Nvml {
 public:
  /// Null where the library is missing or too old, or cannot start.
  [[nodiscard]] static std::unique_ptr<const Nvml> open();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();

  /// Of all GPUs; "" for one that does not tell. None if they cannot be counted.
  [[nodiscard]] std::optional<std::vector<std::string>> uuids() const;

  /// What lies between two GPUs.
  struct Pair {
    std::string wires;         ///< "NVLink (18 links)", "PCIe through one switch", …
    std::string why_no_peers;  ///< empty where NVML sees no reason
  };
  /// None where NVML does not know one of them, or is too old to say.
  [[nodiscard]] std::optional<Pair> pair(const std::string& one, const std::string& other) const;

  /// Of a GPU's multiprocessors; none where NVML does not know that GPU or its clock.
  [[nodiscard]] std::optional<GpuClock::Reading> sm_clock(const std::string& gpu) const;

 private:
  struct Functions;
  Nvml(void* library, const Functions& functions);

  void* library_;
  std::unique_ptr<const Functions> functions_;
};

}  // namespace tandem::cuda
