// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

#include "tandem/device/signal.hpp"

namespace tandem::cuda {

/// Puts and waits by value, so that a captured graph owns them: 64 × 24 bytes each, which together fit into the 4 KiB
/// of a kernel's parameters.
struct SignalArguments {
  SignalPut puts[max_signals];
  std::uint32_t count;
};

struct WaitArguments {
  SignalWait waits[max_signals];
  std::uint32_t count;
  WaitControl* control;
};

struct SignalAndWaitArguments {
  SignalArguments signal;
  WaitArguments wait;
};

[[nodiscard]] cudaError_t launch_signal(const SignalArguments& arguments, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_wait(const WaitArguments& arguments, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_wait_and_count(const SignalAndWaitArguments& arguments, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_signal_and_wait(const SignalAndWaitArguments& arguments, cudaStream_t stream);

/// Loads the code now: lazy loading at the first launch may synchronize the context, which may never return if a kernel
/// that waits for a peer is already running.
[[nodiscard]] cudaError_t load_signal_kernels();

}  // namespace tandem::cuda
