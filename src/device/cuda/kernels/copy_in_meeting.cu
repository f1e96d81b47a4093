// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "device/cuda/kernels/copy_in_meeting.hpp"
#include "device/cuda/kernels/meeting.cuh"

namespace tandem::cuda {
namespace {

constexpr int threads = 256;

template <typename Word>
__global__ void __launch_bounds__(threads) copy_kernel(const __grid_constant__ CopyInMeetingArguments arguments) {
  constexpr int batch = 4;  // loads on their way: so a few blocks fill a link
  meet_peers(arguments.meeting);
  const std::size_t thread = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  // All copies go on side by side: what stays on this GPU beside what crosses.
  bool more = true;
  for (std::size_t first = thread; more; first += batch * stride) {
    more = false;
    for (int c = 0; c < arguments.copy_count; ++c) {
      const CopyInMeetingArguments::Bytes& copy = arguments.copies[c];
      const std::size_t words = copy.count / sizeof(Word);
      if (first >= words) continue;
      more = true;
      Word word[batch];
#pragma unroll
      for (int j = 0; j < batch; ++j) {
        if (first + j * stride < words) word[j] = reinterpret_cast<const Word*>(copy.from)[first + j * stride];
      }
#pragma unroll
      for (int j = 0; j < batch; ++j) {
        if (first + j * stride < words) reinterpret_cast<Word*>(copy.to)[first + j * stride] = word[j];
      }
    }
  }
  if constexpr (sizeof(Word) > 1) {
    for (int c = 0; c < arguments.copy_count; ++c) {
      const CopyInMeetingArguments::Bytes& copy = arguments.copies[c];
      const std::size_t rest = copy.count / sizeof(Word) * sizeof(Word) + thread;
      if (rest < copy.count) copy.to[rest] = copy.from[rest];
    }
  }
  meet_peers(arguments.meeting);
}

struct Kernel {
  std::size_t word;
  const void* function;
};

template <typename Word> constexpr Kernel kernel() {
  return {sizeof(Word), reinterpret_cast<const void*>(&copy_kernel<Word>)};
}

// The widest first.
const Kernel kernels[] = {kernel<uint4>(), kernel<std::uint64_t>(), kernel<std::uint32_t>(), kernel<std::uint16_t>(),
                          kernel<std::uint8_t>()};

}  // namespace

cudaError_t launch_copy_in_meeting(const CopyInMeetingArguments& arguments, int blocks, cudaStream_t stream) {
  std::uintptr_t together = 0;
  for (int c = 0; c < arguments.copy_count; ++c) {
    together |= reinterpret_cast<std::uintptr_t>(arguments.copies[c].to);
    together |= reinterpret_cast<std::uintptr_t>(arguments.copies[c].from);
  }
  const Kernel* const widest =
      std::find_if(std::begin(kernels), std::end(kernels), [&](const Kernel& k) { return together % k.word == 0; });
  void* parameters[] = {const_cast<CopyInMeetingArguments*>(&arguments)};
  return cudaLaunchKernel(widest->function, dim3(static_cast<unsigned>(blocks)), dim3(threads), parameters, 0, stream);
}

cudaError_t load_copy_in_meeting_kernels() {
  for (const Kernel& kernel : kernels) {
    cudaFuncAttributes attributes;
    if (const cudaError_t result = cudaFuncGetAttributes(&attributes, kernel.function); result != cudaSuccess) {
      return result;
    }
  }
  return cudaSuccess;
}

}  // namespace tandem::cuda
