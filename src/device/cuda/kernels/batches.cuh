// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tandem::cuda {

/// Calls body.operator()<n, b>(first, pitch) for packs of n elements that cover [0, count) over the whole grid: b
/// packs, the first at `first`, each `pitch` elements after the previous one. A thread with several packs gets B at a
/// time, unless `one_by_one`, so that few threads have many loads in flight.
template <int N, int B, typename Body>
__device__ void for_each_batch(std::int64_t count, bool one_by_one, const Body& body) {
  const std::int64_t packs = count / N;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (one_by_one || packs <= threads) {
    for (std::int64_t p = thread; p < packs; p += threads) body.template operator()<N, 1>(p * N, 0);
  } else {
    // The packs of a block's batches are contiguous, so that the block accesses memory in order.
    const std::int64_t block = blockDim.x;
    std::int64_t p = static_cast<std::int64_t>(blockIdx.x) * B * block + threadIdx.x;
    for (; p + (B - 1) * block < packs; p += threads * B) body.template operator()<N, B>(p * N, block * N);
    for (; p < packs; p += block) body.template operator()<N, 1>(p * N, 0);
  }
  if constexpr (N > 1) {
    // One element per thread suffices: a block has more threads than a pack has elements.
    const std::int64_t rest = packs * N + thread;
    if (rest < count) body.template operator()<1, 1>(rest, 0);
  }
}

}  // namespace tandem::cuda
