// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"

namespace tandem {

/// The SM clock of one GPU, as NVML reports it: needed to interpret measurements on that GPU.
class TANDEM_API GpuClock {
 public:
  /// `gpu` is an index as in "cuda:1". Loads NVML for the lifetime of this object. Throws InvalidArgument for an index
  /// out of range, Unsupported in a build without CUDA.
  explicit GpuClock(int gpu);
  GpuClock(const GpuClock&) = delete;
  GpuClock& operator=(const GpuClock&) = delete;
  ~GpuClock();

  struct Reading {
    int mhz;       ///< the current clock
    int most_mhz;  ///< the highest clock that it may reach
  };
  /// Takes microseconds to milliseconds of host time, and no GPU time. Empty if NVML is missing or does not report the
  /// clock.
  [[nodiscard]] std::optional<Reading> read() const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};
static_assert(Pinned<GpuClock>);

}  // namespace tandem
