// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/cuda/kernels/element.cuh"

namespace tandem::cuda {

/// Sums elements [first, first + N) of `count` sources, in their order, and those of B - 1 more packs, each `pitch`
/// elements after the previous one; source(i) is the address of the i-th source.
template <typename In, int B, int N, typename Source>
__device__ void sum_packs(Accumulator<In> (&sums)[B][N], int count, std::int64_t first, std::int64_t pitch,
                          const Source& source) {
  // Sources whose loads are in flight before the first addition: these hide latency, over NVLink and within a GPU,
  // rather than more threads.
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
          // The first source is not added to 0, so that its negative zeros keep their sign.
          sums[b][i] = s + j == 0 ? x : static_cast<Accumulator<In>>(sums[b][i] + x);
        }
      }
    }
  }
}

}  // namespace tandem::cuda
