// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "support/cuda/occupied_gpu.hpp"

namespace tandem::testing {

struct OccupiedGpu::Flags {
  unsigned release;
  unsigned started;
};

namespace {

__global__ void __launch_bounds__(OccupiedGpu::most_block_threads)
    occupy(const volatile unsigned* release, unsigned* started, unsigned long long limit_ns) {
  unsigned long long begin = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  if (threadIdx.x == 0) atomicAdd(started, 1U);  // the CPU only reads it: PCIe need not support atomics
  for (unsigned long long now = begin; *release == 0 && now - begin < limit_ns;) {
    __nanosleep(10'000);
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  }
}

unsigned volatile_load(const unsigned& value) { return *const_cast<const volatile unsigned*>(&value); }

}  // namespace

OccupiedGpu::OccupiedGpu(int device, std::chrono::milliseconds limit, int block_threads) {
  cudaSetDevice(device);
  int multiprocessors = 0;
  int blocks_each = 0;
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_each, occupy, block_threads, 0);
  blocks_ = static_cast<unsigned>(multiprocessors * blocks_each);
  cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
  if (cudaHostAlloc(reinterpret_cast<void**>(&flags_), sizeof(Flags), cudaHostAllocMapped) != cudaSuccess) return;
  *flags_ = {0, 0};
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(limit).count();
  occupy<<<blocks_, block_threads, 0, stream_>>>(&flags_->release, &flags_->started,
                                                 static_cast<unsigned long long>(nanoseconds));
  const auto begin = std::chrono::steady_clock::now();
  while (volatile_load(flags_->started) < blocks_ && std::chrono::steady_clock::now() - begin < limit) {
    std::this_thread::yield();
  }
}

OccupiedGpu::~OccupiedGpu() {
  if (flags_ != nullptr) *const_cast<volatile unsigned*>(&flags_->release) = 1;
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
  cudaFreeHost(flags_);
}

bool OccupiedGpu::is_taken() const {
  return flags_ != nullptr && blocks_ != 0 && volatile_load(flags_->started) == blocks_ &&
         cudaStreamQuery(stream_) == cudaErrorNotReady;
}

}  // namespace tandem::testing
