// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tandem/device/signal_device.cuh"

#include "device/cuda/kernels/signal.hpp"
#include "device/cuda/kernels/table.cuh"

namespace tandem::cuda {
namespace {

// Why this publishes everything that the stream did before, including copies by the copy engines: a kernel starts after
// all earlier work of its stream is complete and performed at this device's memory, or at the peer's memory for what
// was written there; so that work precedes this thread's instructions in causality order. A release is cumulative: a
// rank that acquires the count at system scope also sees everything before the release, whoever wrote it. Each thread
// releases everything written before, so the counts of one call need no order among themselves.
__device__ void put_signals(const SignalArguments& arguments) {
  if (const unsigned i = threadIdx.x; i < arguments.count) put_signal(arguments.puts[i]);
}

// Each thread acquires its own word at system scope, and the kernel ends after its last thread: what the peers released
// is visible to all later work of the stream. It is a single block, so that it is never partly resident, and occupies
// little of one SM while it waits.
__device__ void wait_signals(const WaitArguments& arguments) {
  // The stream continues after a wait that failed: the host learns of it.
  if (const unsigned i = threadIdx.x; i < arguments.count) {
    static_cast<void>(wait_signal(arguments.waits[i], arguments.control));
  }
  // Reconverges the block: no thread exits while another still polls.
  __syncthreads();
}

__global__ void __launch_bounds__(max_signals) signal_kernel(const __grid_constant__ SignalArguments arguments) {
  put_signals(arguments);
}

__global__ void __launch_bounds__(max_signals) wait_kernel(const __grid_constant__ WaitArguments arguments) {
  wait_signals(arguments);
}

__global__ void __launch_bounds__(max_signals)
    signal_and_wait_kernel(const __grid_constant__ SignalAndWaitArguments arguments) {
  put_signals(arguments.signal);
  wait_signals(arguments.wait);
}

// The counts may be incremented before the waits: nobody else sees them before they are released.
__global__ void __launch_bounds__(max_signals)
    wait_and_count_kernel(const __grid_constant__ SignalAndWaitArguments arguments) {
  if (const unsigned i = threadIdx.x; i < arguments.signal.count) ++arguments.signal.puts[i].mine->put;
  wait_signals(arguments.wait);
}

/// Launches one block with as few warps as `count` signals need: there are registers for one warp even on an SM that a
/// GEMM has filled (12 warps with 168 registers per thread leave 1024); two would wait for the GEMM to end.
template <typename Arguments>
cudaError_t launch(void (*kernel)(Arguments), const Arguments& arguments, unsigned count, cudaStream_t stream) {
  constexpr unsigned warp = 32;
  void* parameters[] = {const_cast<Arguments*>(&arguments)};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3((count + warp - 1) / warp * warp),
                          parameters, 0, stream);
}

}  // namespace

cudaError_t launch_signal(const SignalArguments& arguments, cudaStream_t stream) {
  return launch(&signal_kernel, arguments, arguments.count, stream);
}

cudaError_t launch_wait(const WaitArguments& arguments, cudaStream_t stream) {
  return launch(&wait_kernel, arguments, arguments.count, stream);
}

cudaError_t launch_wait_and_count(const SignalAndWaitArguments& arguments, cudaStream_t stream) {
  return launch(&wait_and_count_kernel, arguments, std::max(arguments.signal.count, arguments.wait.count), stream);
}

cudaError_t launch_signal_and_wait(const SignalAndWaitArguments& arguments, cudaStream_t stream) {
  return launch(&signal_and_wait_kernel, arguments, std::max(arguments.signal.count, arguments.wait.count), stream);
}

cudaError_t load_signal_kernels() {
  return load_kernels({reinterpret_cast<const void*>(&signal_kernel), reinterpret_cast<const void*>(&wait_kernel),
                       reinterpret_cast<const void*>(&wait_and_count_kernel),
                       reinterpret_cast<const void*>(&signal_and_wait_kernel)});
}

}  // namespace tandem::cuda
