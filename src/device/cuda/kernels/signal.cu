// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/cuda/kernels/signal.cuh"
#include "device/cuda/kernels/signal.hpp"
#include "device/cuda/kernels/table.cuh"

namespace tandem::cuda {
namespace {

// Why this publishes all that the stream did before, copies by the copy engines included: a kernel starts after
// everything queued before it in its stream is complete and performed at this device's memory, or at the peer's memory
// for what was written there; that puts it before this thread's instructions in causality order. A release is
// cumulative: who acquires the count at system scope also sees what came before the release, whoever wrote it. Each
// thread releases all that was written before, so the counts of one call need no order among themselves.
__device__ void put_signals(const SignalArguments& arguments) {
  if (const unsigned i = threadIdx.x; i < arguments.count) put_signal(arguments.puts[i]);
}

// Each thread acquires its own word at system scope, and the kernel ends after its last thread: what the peers released
// is visible to all that follows in the stream. It is one block: it cannot be half resident, and it takes no more than
// a corner of one SM while it waits.
__device__ void wait_signals(const WaitArguments& arguments) {
  if (const unsigned i = threadIdx.x; i < arguments.count) wait_signal(arguments.waits[i], arguments.control);
  // Reconverges the block: no thread leaves an SM slot half held while another still polls.
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

// Nobody else sees the counts before they are released.
__global__ void __launch_bounds__(max_signals)
    wait_and_count_kernel(const __grid_constant__ SignalAndWaitArguments arguments) {
  if (const unsigned i = threadIdx.x; i < arguments.signal.count) ++arguments.signal.puts[i].mine->put;
  wait_signals(arguments.wait);
}

/// One block for `count` signals, of no more warps than that takes: one warp finds registers also on a multiprocessor
/// that a product has filled (twelve warps of 168 leave 1024 of them), two would wait for the product to end.
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
