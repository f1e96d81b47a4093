// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/kernels/signal.cuh"
#include "device/cuda/kernels/signal.hpp"

namespace tandem::cuda {
namespace {

// Why this publishes all that the stream did before, copies by the copy engines included: a kernel starts after
// everything queued before it in its stream is complete and performed at this device's memory, or at the peer's memory
// for what was written there; that puts it before this thread's instructions in causality order. A release is
// cumulative: who acquires the count at system scope also sees what came before the release, whoever wrote it. Each
// thread fences all that was written before, so the counts of one call need no order among themselves.
__global__ void __launch_bounds__(max_signals) signal_kernel(const SignalArguments arguments) {
  const unsigned i = threadIdx.x;
  if (i >= arguments.count) return;
  put_signal(arguments.puts[i]);
}

// Each thread acquires its own word at system scope, and the kernel ends after its last thread: what the peers released
// is visible to all that follows in the stream. It is one block: it cannot be half resident, and it takes no more than
// a corner of one SM while it waits.
__global__ void __launch_bounds__(max_signals) wait_kernel(const WaitArguments arguments) {
  const unsigned i = threadIdx.x;
  if (i < arguments.count) wait_signal(arguments.waits[i], arguments.control);
  // Reconverges the block: no thread leaves an SM slot half held while another still polls.
  __syncthreads();
}

}  // namespace

cudaError_t launch_signal(const SignalArguments& arguments, cudaStream_t stream) {
  void* parameters[] = {const_cast<SignalArguments*>(&arguments)};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&signal_kernel), dim3(1), dim3(max_signals), parameters, 0,
                          stream);
}

cudaError_t launch_wait(const WaitArguments& arguments, cudaStream_t stream) {
  void* parameters[] = {const_cast<WaitArguments*>(&arguments)};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&wait_kernel), dim3(1), dim3(max_signals), parameters, 0,
                          stream);
}

cudaError_t load_signal_kernels() {
  cudaFuncAttributes attributes;
  if (const cudaError_t result = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&signal_kernel));
      result != cudaSuccess) {
    return result;
  }
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&wait_kernel));
}

}  // namespace tandem::cuda
