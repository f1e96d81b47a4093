// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/device/gpu_clock.hpp"

namespace tandem::cuda {

/// NVML, the library behind nvidia-smi, loaded and initialized while this lives. It lists the machine's (or
/// container's) GPUs without initializing CUDA.
class Nvml {
 public:
  /// Null if the library is missing, too old, or fails to initialize.
  [[nodiscard]] static std::unique_ptr<const Nvml> open();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();

  /// The UUIDs of all GPUs, "" for a GPU that does not report one; empty if the GPUs cannot be counted.
  [[nodiscard]] std::optional<std::vector<std::string>> uuids() const;

  /// The link between two GPUs.
  struct Pair {
    std::string wires;         ///< "NVLink (18 links)", "PCIe through one switch", …
    std::string why_no_peers;  ///< why they cannot access each other's memory; "" if NVML sees no reason
  };
  /// `one` and `other` are UUIDs. Empty if NVML does not know one of them, or is too old.
  [[nodiscard]] std::optional<Pair> pair(const std::string& one, const std::string& other) const;

  /// The SM clock of the GPU with this UUID; empty if NVML does not know the GPU or its clock.
  [[nodiscard]] std::optional<GpuClock::Reading> sm_clock(const std::string& gpu) const;

 private:
  struct Functions;
  Nvml(void* library, const Functions& functions);

  void* library_;
  std::unique_ptr<const Functions> functions_;
};

}  // namespace tandem::cuda
