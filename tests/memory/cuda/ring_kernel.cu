// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/signal_device.cuh"

#include "memory/cuda/ring_kernel.hpp"

namespace tandem::testing {
namespace {

/// All threads of the block learn whether the signal has come, and see what was stored before it.
__device__ bool wait_together(const SignalWait& wait, WaitControl* control) {
  __shared__ bool has_come;
  if (threadIdx.x == 0) has_come = wait_signal(wait, control);
  __syncthreads();
  const bool result = has_come;
  __syncthreads();  // before the next wait changes it
  return result;
}

__global__ void ring_step(RingStep step) {
  if (!wait_together(step.granted, step.control)) return;
  for (int i = static_cast<int>(threadIdx.x); i < step.count; i += static_cast<int>(blockDim.x)) {
    step.mine[i] += step.growth;
    step.next[i] = step.mine[i];
  }
  __syncthreads();
  if (threadIdx.x == 0) put_signal(step.sent);
  if (!wait_together(step.came, step.control)) return;
  for (int i = static_cast<int>(threadIdx.x); i < step.count; i += static_cast<int>(blockDim.x)) {
    step.sums[i] += step.inbox[i];
  }
  __syncthreads();
  if (threadIdx.x == 0) put_signal(step.read);
}

__global__ void wait_alone(SignalWait wait, WaitControl* control, int* outcome) {
  *outcome = wait_signal(wait, control) ? 1 : 0;
}

}  // namespace

cudaError_t load_ring_kernels() {
  cudaFuncAttributes attributes;
  const cudaError_t result = cudaFuncGetAttributes(&attributes, ring_step);
  return result != cudaSuccess ? result : cudaFuncGetAttributes(&attributes, wait_alone);
}

cudaError_t launch_ring_step(const RingStep& step, cudaStream_t stream) {
  ring_step<<<1, 256, 0, stream>>>(step);
  return cudaGetLastError();
}

cudaError_t launch_wait_alone(const SignalWait& wait, WaitControl* control, int* outcome, cudaStream_t stream) {
  wait_alone<<<1, 1, 0, stream>>>(wait, control, outcome);
  return cudaGetLastError();
}

}  // namespace tandem::testing
