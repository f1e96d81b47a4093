// SPDX-License-Identifier: Apache-2.0
// Compiled with -fmad=false (see CMakeLists.txt), like reduce.cu.
#include <algorithm>

#include "device/cuda/kernels/attention_merge.hpp"
#include "device/cuda/kernels/element.cuh"
#include "device/cuda/kernels/table.cuh"

namespace tandem::cuda {
namespace {

constexpr int threads = 256;
constexpr int warp = 32;
constexpr std::int64_t resident_warps = 8192;  // as many as the multiprocessors of a large GPU hold

/// Of a row, which is a query in a head: how much of the old sum and of the part the new sum has.
struct Weights {
  float old;
  float part;
  float lse;
};

/// Computed from the difference alone, so that the weights add up to 1 however large the logarithms are.
__device__ Weights weigh(float lse, float lse_part) {
  const float difference = lse_part - lse;
  const float smaller = expf(-fabsf(difference));
  const float larger_weight = 1.0F / (1.0F + smaller);
  const float smaller_weight = smaller * larger_weight;
  const float sum = fmaxf(lse, lse_part) + log1pf(smaller);
  return difference > 0 ? Weights{smaller_weight, larger_weight, sum} : Weights{larger_weight, smaller_weight, sum};
}

/// How the rows are divided among warps.
struct Tiling {
  int rows;            ///< of a warp, at most one for each of its threads
  std::int64_t packs;  ///< of a row
};

/// Each thread weighs one row, since logarithms and exponentials by every thread of a row would take longer than the
/// memory; then the warp goes through its rows, which are contiguous, with a number of packs in flight.
template <typename T, typename Before, typename After, int N>
__global__ void __launch_bounds__(threads) merge_kernel(const AttentionMerge merge, const Tiling tiling) {
  constexpr int in_flight = 2;
  const MergedRows& range = merge.rows;
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const std::int64_t heads = merge.batch * merge.heads;
  const std::int64_t all_rows = range.count * heads;
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * (threads / warp) + threadIdx.x / warp) * tiling.rows;
  if (first >= all_rows) return;
  const int rows = static_cast<int>(min(static_cast<std::int64_t>(tiling.rows), all_rows - first));
  Weights weights = {1.0F, 1.0F, 0.0F};
  if (merge.lse != nullptr && lane < rows) {
    const std::int64_t token = (first + lane) / heads;
    const std::int64_t head = (first + lane) % heads;
    float& lse = merge.lse[head * range.tokens + range.first + token];
    weights = weigh(lse, merge.lse_part[head * range.part_tokens + range.part_first + token]);
    lse = weights.lse;
  }

  const std::int64_t from = (first + range.part_first * heads) * merge.dim;
  const std::int64_t to = (first + range.first * heads) * merge.dim;
  const std::int64_t end = rows * tiling.packs;
  // The row, and the pack in it, of this thread's next pack.
  auto row = static_cast<int>(lane / tiling.packs);
  std::int64_t column = lane % tiling.packs;
  const auto next_row = static_cast<int>(warp / tiling.packs);
  const std::int64_t next_column = warp % tiling.packs;
  for (std::int64_t pack = lane; pack - lane < end; pack += warp * in_flight) {
    Pack<T, N> part[in_flight];
    Pack<Before, N> before[in_flight];
    float old_weight[in_flight];
    float part_weight[in_flight];
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      const std::int64_t here = pack + i * warp;
      part[i] = {};
      before[i] = {};
      if (here < end) {
        part[i] = load_pack<T, N>(merge.part, from + here * N);
        before[i] = load_pack<Before, N>(merge.before, to + here * N);
      }
      old_weight[i] = __shfl_sync(0xffffffffU, weights.old, row);
      part_weight[i] = __shfl_sync(0xffffffffU, weights.part, row);
      row += next_row;
      column += next_column;
      if (column >= tiling.packs) {
        column -= tiling.packs;
        ++row;
      }
    }
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      const std::int64_t here = pack + i * warp;
      if (here >= end) break;
      Pack<After, N> after;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        after.values[j] =
            narrow<After>(fmaf(part_weight[i], widen(part[i].values[j]), old_weight[i] * widen(before[i].values[j])));
      }
      store_pack<After, N>(merge.after, to + here * N, after);
    }
  }
}

using Kernel = void (*)(AttentionMerge, Tiling);

template <typename T> struct MergesOf {
  static constexpr int width = 16 / sizeof(T);

  template <int N> static Kernel kernel(bool from_f32, bool to_f32) {
    if (from_f32) return to_f32 ? &merge_kernel<T, float, float, N> : &merge_kernel<T, float, T, N>;
    return to_f32 ? &merge_kernel<T, T, float, N> : &merge_kernel<T, T, T, N>;
  }
  static Kernel kernel(bool from_f32, bool to_f32, bool vector) {
    return vector ? kernel<width>(from_f32, to_f32) : kernel<1>(from_f32, to_f32);
  }
};

/// Calls `use` with the merges of a dtype that the kernels have.
template <typename Use> cudaError_t with_merges(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::f16: return use(MergesOf<__half>());
    case DType::bf16: return use(MergesOf<__nv_bfloat16>());
    default: return use(MergesOf<float>());
  }
}

}  // namespace

cudaError_t launch_merge(const AttentionMerge& merge, cudaStream_t stream) {
  return with_merges(merge.dtype, [&]<typename Merges>(Merges) {
    const bool vector =
        merge.dim % Merges::width == 0 && aligned16(merge.before) && aligned16(merge.after) && aligned16(merge.part);
    const std::int64_t rows = merge.rows.count * merge.batch * merge.heads;
    // Fewer rows for a warp, if otherwise some multiprocessors would have none.
    const std::int64_t tile = std::clamp<std::int64_t>(rows / resident_warps, 1, warp);
    Tiling tiling{static_cast<int>(tile), vector ? merge.dim / Merges::width : merge.dim};
    const std::int64_t warps = (rows + tile - 1) / tile;
    const std::int64_t blocks = (warps + threads / warp - 1) / (threads / warp);
    void* parameters[] = {const_cast<AttentionMerge*>(&merge), &tiling};
    const Kernel kernel = Merges::kernel(merge.before_dtype == f32, merge.after_dtype == f32, vector);
    return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(static_cast<unsigned>(blocks)), dim3(threads),
                            parameters, 0, stream);
  });
}

cudaError_t load_merge_kernels() {
  for (const DType dtype : {f32, f16, bf16}) {
    const cudaError_t result = with_merges(dtype, []<typename Merges>(Merges) {
      for (const bool from_f32 : {true, false}) {
        for (const bool to_f32 : {true, false}) {
          for (const bool vector : {true, false}) {
            const Kernel kernel = Merges::kernel(from_f32, to_f32, vector);
            const cudaError_t loaded = load_kernels({reinterpret_cast<const void*>(kernel)});
            if (loaded != cudaSuccess) return loaded;
          }
        }
      }
      return cudaSuccess;
    });
    if (result != cudaSuccess) return result;
  }
  return cudaSuccess;
}

}  // namespace tandem::cuda
