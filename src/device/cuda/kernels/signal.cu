// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include "device/cuda/kernels/signal.hpp"

namespace tandem::cuda {
namespace {

constexpr std::uint64_t abort_poll_ns = 50'000;
constexpr unsigned max_sleep_ns = 256;

__device__ std::uint64_t load_acquire_system(const std::uint64_t* word) {
  std::uint64_t value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

__device__ void store_release_system(std::uint64_t* word, std::uint64_t value) {
  asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

__device__ void store_release_system(std::uint32_t* word, std::uint32_t value) {
  asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

__device__ std::uint32_t load_relaxed_system(const std::uint32_t* word) {
  std::uint32_t value;
  asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

__device__ std::uint64_t now_ns() {
  std::uint64_t value;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value)::"memory");
  return value;
}

// Why this publishes all that the stream did before, copies by the copy engines included: a kernel starts after
// everything queued before it in its stream is complete and performed at this device's memory, or at the peer's memory
// for what was written there; that puts it before this thread's instructions in causality order. A release is
// cumulative: who acquires the count at system scope also sees what came before the release, whoever wrote it. The
// fence in front makes every earlier write of this GPU performed at system scope before any of the counts leaves, so
// that the counts of one call need no order among themselves.
//
// `put` belongs to this rank alone and calls for one word are ordered by their streams: no atomic is needed.
__global__ void __launch_bounds__(max_signals) signal_kernel(const SignalArguments arguments) {
  const unsigned i = threadIdx.x;
  if (i >= arguments.count) return;
  const SignalPut put = arguments.puts[i];
  const std::uint64_t count = put.mine->put + 1;
  put.mine->put = count;
  __threadfence_system();
  store_release_system(&put.theirs->value, count);
}

// The first of this rank's waits to miss its deadline says so; the others only see the abort.
// `control` is host memory, on which a PCIe root need not offer atomics: only kernels of this GPU compete for `failed`,
// so the exchange is atomic for this GPU alone. The CPU reads `failure` after it has acquired failed == 2.
__device__ void report_timeout(WaitControl* control, const SignalWait& wait, std::uint64_t expected, std::uint64_t seen,
                               std::uint64_t waited_ns) {
  if (atomicCAS(&control->failed, 0U, 1U) == 0U) {
    control->failure = {wait.operation, wait.peer, wait.channel, expected, seen, waited_ns};
    store_release_system(&control->failed, 2U);
  }
  store_release_system(&control->abort, 1U);
}

// Invariants:
// - `taken` grows by `count` whatever the outcome, so that a word's account does not depend on timing;
// - each thread acquires its own word at system scope, and the kernel ends after its last thread: what the peers
//   released is visible to all that follows in the stream;
// - the fast path (the count is already there) reads nothing of the host's memory;
// - otherwise the abort word is read every 50 µs only, a round trip over PCIe each; the loop ends by the deadline, and
//   so does the kernel;
// - it is one block: it cannot be half resident, and it takes no more than a corner of one SM while it waits.
__global__ void __launch_bounds__(max_signals) wait_kernel(const WaitArguments arguments) {
  const unsigned i = threadIdx.x;
  if (i < arguments.count) {
    const SignalWait wait = arguments.waits[i];
    const std::uint64_t expected = wait.word->taken + wait.count;
    wait.word->taken = expected;
    std::uint64_t seen = load_acquire_system(&wait.word->value);
    if (seen < expected) {
      WaitControl* control = arguments.control;
      const std::uint64_t begin = now_ns();
      const std::uint64_t timeout = *const_cast<const volatile std::uint64_t*>(&control->timeout_ns);
      std::uint64_t next_abort_poll = begin;
      unsigned sleep_ns = 16;
      while ((seen = load_acquire_system(&wait.word->value)) < expected) {
        const std::uint64_t now = now_ns();
        if (now >= next_abort_poll) {
          if (load_relaxed_system(&control->abort) != 0U) break;
          next_abort_poll = now + abort_poll_ns;
        }
        if (now - begin >= timeout) {
          report_timeout(control, wait, expected, seen, now - begin);
          break;
        }
        __nanosleep(sleep_ns);
        sleep_ns = sleep_ns < max_sleep_ns ? sleep_ns * 2 : max_sleep_ns;
      }
    }
  }
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
