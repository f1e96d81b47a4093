// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

#include "tandem/device/signal.hpp"

namespace tandem::testing {

/// A step of a ring, by one block: what this rank has goes to the next one, and what came from the previous one is
/// added up. The next rank grants the place that is written, and gets a signal.
struct RingStep {
  SignalWait granted;  ///< by the next rank
  SignalPut sent;      ///< to the next rank
  SignalWait came;     ///< from the previous rank
  SignalPut read;      ///< to the previous rank
  WaitControl* control = nullptr;
  std::int64_t* mine = nullptr;   ///< grows by `growth` in each step, before it is sent
  std::int64_t* inbox = nullptr;  ///< of this rank
  std::int64_t* next = nullptr;   ///< inbox of the next rank
  std::int64_t* sums = nullptr;
  std::int64_t growth = 0;
  int count = 0;
};

/// Loads the kernels, so that launching them waits for nothing.
[[nodiscard]] cudaError_t load_ring_kernels();
[[nodiscard]] cudaError_t launch_ring_step(const RingStep& step, cudaStream_t stream);
/// Stores in `outcome` what wait_signal returns: 1 or 0.
[[nodiscard]] cudaError_t launch_wait_alone(const SignalWait& wait, WaitControl* control, int* outcome,
                                            cudaStream_t stream);

}  // namespace tandem::testing
