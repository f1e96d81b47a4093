// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/cuda/kernels/element.cuh"

namespace tandem::cuda {

/// Adds up elements [first, first + N) of `count` sources, in their order, and of B - 1 more packs of which each begins
/// `pitch` elements behind the one before; source(i) is where the i-th begins.
template <typename In, int B, int N, typename Source>
__device__ void sum_packs(Accumulator<In> (&sums)[B][N], int count, std::int64_t first, std::int64_t pitch,
                          const Source& source) {
  // Loads in flight before the first addition: latency, over NVLink and within a GPU, is hidden by these, not by more
  // threads.
  constexpr int together = 4;
  for (int s = 0; s < count; s += together) {
    PackBits<In, N> loaded[together][B];
#pragma unroll
    for (int j = 0; j < together; ++j) {
      if (s + j >= count) continue;
      const void* const from = source(s + j);
#pragma unroll
      for (int b = 0; b < B; ++b) loaded[j][b] = load_bits<In, N>(from, first + b * pitch);
    }
#pragma unroll
    for (int j = 0; j < together; ++j) {
      if (s + j >= count) continue;
#pragma unroll
      for (int b = 0; b < B; ++b) {
        const Pack<In, N> pack = loaded[j][b].unpacked();
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const auto x = widen(pack.values[i]);
          // The first one is taken as it is, so that a single source keeps the sign of its zeros.
          sums[b][i] = s + j == 0 ? x : static_cast<Accumulator<In>>(sums[b][i] + x);
        }
      }
    }
  }
}

}  // namespace tandem::cuda
