// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "device/cuda/kernels/copy_in_meeting.hpp"
#include "device/cuda/kernels/meeting.cuh"
#include "device/cuda/kernels/table.cuh"

namespace tandem::cuda {
namespace {

constexpr int threads = 256;

/// The words that a thread has in flight at once, so that a few blocks fill a link: every `stride`-th word from `first`
/// on, as long as it is below `count`.
template <typename Word> struct Batch {
  static constexpr int size = 4;

  __device__ void load(const std::byte* from, std::size_t first, std::size_t stride, std::size_t count) {
#pragma unroll
    for (int j = 0; j < size; ++j) {
      if (first + j * stride < count) words[j] = reinterpret_cast<const Word*>(from)[first + j * stride];
    }
  }
  __device__ void store(std::byte* to, std::size_t first, std::size_t stride, std::size_t count) const {
#pragma unroll
    for (int j = 0; j < size; ++j) {
      if (first + j * stride < count) reinterpret_cast<Word*>(to)[first + j * stride] = words[j];
    }
  }

  Word words[size];
};

__device__ inline std::size_t grid_thread() { return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline std::size_t grid_threads() { return static_cast<std::size_t>(gridDim.x) * blockDim.x; }

template <typename Word>
__global__ void __launch_bounds__(threads) copy_kernel(const __grid_constant__ CopyInMeetingArguments arguments) {
  meet_peers(arguments.meeting);
  const std::size_t thread = grid_thread();
  const std::size_t stride = grid_threads();
  // All copies advance together, so that those within this GPU overlap with those over a link.
  bool more = true;
  for (std::size_t first = thread; more; first += Batch<Word>::size * stride) {
    more = false;
    for (int c = 0; c < arguments.copy_count; ++c) {
      const CopyInMeetingArguments::Bytes& copy = arguments.copies[c];
      const std::size_t words = copy.count / sizeof(Word);
      if (first >= words) continue;
      more = true;
      Batch<Word> batch;
      batch.load(copy.from, first, stride, words);
      batch.store(copy.to, first, stride, words);
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

template <typename Word>
__global__ void __launch_bounds__(threads) spread_kernel(const __grid_constant__ SpreadInMeetingArguments arguments) {
  const std::size_t thread = grid_thread();
  const std::size_t stride = grid_threads();
  const std::size_t words = arguments.count / sizeof(Word);
  // The first loads are issued before the meeting: the source is in this rank's memory and needs no peer.
  Batch<Word> batch;
  batch.load(arguments.from, thread, stride, words);
  meet_peers(arguments.meeting);
  for (std::size_t first = thread; first < words;) {
    for (int d = 0; d < arguments.to_count; ++d) batch.store(arguments.to[d], first, stride, words);
    first += Batch<Word>::size * stride;
    batch.load(arguments.from, first, stride, words);
  }
  if constexpr (sizeof(Word) > 1) {
    if (const std::size_t rest = words * sizeof(Word) + thread; rest < arguments.count) {
      for (int d = 0; d < arguments.to_count; ++d) arguments.to[d][rest] = arguments.from[rest];
    }
  }
  meet_peers(arguments.meeting);
}

/// The kernels for words of `word` bytes.
struct Kernels {
  std::size_t word;
  const void* copy;
  const void* spread;
};

template <typename Word> constexpr Kernels kernels_for() {
  return {sizeof(Word), reinterpret_cast<const void*>(&copy_kernel<Word>),
          reinterpret_cast<const void*>(&spread_kernel<Word>)};
}

// Widest words first.
const Kernels kernels[] = {kernels_for<uint4>(), kernels_for<std::uint64_t>(), kernels_for<std::uint32_t>(),
                           kernels_for<std::uint16_t>(), kernels_for<std::uint8_t>()};

/// The kernels with the widest words to which all addresses, OR-ed together in `places`, are aligned.
const Kernels& widest(std::uintptr_t places) {
  return *std::find_if(std::begin(kernels), std::end(kernels), [&](const Kernels& k) { return places % k.word == 0; });
}

template <typename Arguments>
cudaError_t launch(const void* function, const Arguments& arguments, int blocks, cudaStream_t stream) {
  void* parameters[] = {const_cast<Arguments*>(&arguments)};
  return cudaLaunchKernel(function, dim3(static_cast<unsigned>(blocks)), dim3(threads), parameters, 0, stream);
}

}  // namespace

cudaError_t launch_copy_in_meeting(const CopyInMeetingArguments& arguments, int blocks, cudaStream_t stream) {
  std::uintptr_t places = 0;
  for (int c = 0; c < arguments.copy_count; ++c) {
    places |= reinterpret_cast<std::uintptr_t>(arguments.copies[c].to);
    places |= reinterpret_cast<std::uintptr_t>(arguments.copies[c].from);
  }
  return launch(widest(places).copy, arguments, blocks, stream);
}

cudaError_t launch_spread_in_meeting(const SpreadInMeetingArguments& arguments, int blocks, cudaStream_t stream) {
  std::uintptr_t places = reinterpret_cast<std::uintptr_t>(arguments.from);
  for (int d = 0; d < arguments.to_count; ++d) places |= reinterpret_cast<std::uintptr_t>(arguments.to[d]);
  return launch(widest(places).spread, arguments, blocks, stream);
}

cudaError_t load_copy_in_meeting_kernels() {
  for (const Kernels& row : kernels) {
    if (const cudaError_t result = load_kernels({row.copy, row.spread}); result != cudaSuccess) return result;
  }
  return cudaSuccess;
}

}  // namespace tandem::cuda
