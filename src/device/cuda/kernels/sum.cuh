// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/cuda/kernels/element.cuh"

namespace tandem::cuda {

/// Adds up elements [first, first + N) of `count` sources, in their order; source(i) is where the i-th begins.
template <typename In, int N, typename Source>
__device__ void sum_packs(Accumulator<In> (&sums)[N], int count, std::int64_t first, const Source& source) {
  // Loads in flight before the first addition: latency over NVLink is hidden by these, not by more threads.
  constexpr int batch = 4;
  for (int s = 0; s < count; s += batch) {
    PackBits<In, N> loaded[batch];
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      if (s + j < count) loaded[j] = load_bits<In, N>(source(s + j), first);
    }
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      if (s + j < count) {
        const Pack<In, N> pack = loaded[j].unpacked();
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const auto x = widen(pack.values[i]);
          // The first one is taken as it is, so that a single source keeps the sign of its zeros.
          sums[i] = s + j == 0 ? x : static_cast<Accumulator<In>>(sums[i] + x);
        }
      }
    }
  }
}

}  // namespace tandem::cuda
