// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "tandem/base/export.hpp"

namespace tandem {

/// The clock of one GPU's multiprocessors, as NVML tells it: what a measurement on that GPU should be read with.
class TANDEM_API GpuClock {
 public:
  /// Of the GPU with this number, as in "cuda:1". Loads NVML for as long as this lives. Throws InvalidArgument for a
  /// number out of range, Unsupported in a build without CUDA.
  explicit GpuClock(int gpu);
  GpuClock(const GpuClock&) = delete;
  GpuClock& operator=(const GpuClock&) = delete;
  ~GpuClock();

  struct Reading {
    int mhz;       ///< at this moment
    int most_mhz;  ///< what it may reach
  };
  /// Takes some microseconds to milliseconds of the host's time, and none of the GPU's. None where NVML is missing or
  /// does not tell.
  [[nodiscard]] std::optional<Reading> read() const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace tandem
