// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/cuda/kernels/activation.cuh"
#include "device/cuda/kernels/element.cuh"
#include "device/cuda/kernels/epilogue.hpp"

namespace tandem::cuda {

__device__ inline bool is_empty(const Epilogue& epilogue) {
  return epilogue.bias == nullptr && epilogue.activation == Activation::none;
}

/// Adds the bias to the sums of elements [first, first + N), applies the activation, and rounds once.
template <typename In, typename Out, int N>
__device__ void finish_sums(Pack<Out, N>& out, const Accumulator<In> (&sums)[N], const Epilogue& epilogue,
                            std::int64_t first) {
  if constexpr (std::is_floating_point_v<Accumulator<In>>) {
    if (is_empty(epilogue)) {
#pragma unroll
      for (int i = 0; i < N; ++i) out.values[i] = narrow<Out>(sums[i]);
      return;
    }
    std::int64_t column = epilogue.bias == nullptr ? 0 : first % epilogue.columns;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      Accumulator<In> x = sums[i];
      if (epilogue.bias != nullptr) {
        x += widen(static_cast<const Out*>(epilogue.bias)[column]);
        if (++column == epilogue.columns) column = 0;
      }
      out.values[i] = narrow<Out>(activate(epilogue.activation, x));
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      // Integers are summed unsigned: back to the element type, since a conversion to a float would need the sign.
      out.values[i] = narrow<Out>(static_cast<In>(sums[i]));
    }
  }
}

}  // namespace tandem::cuda
