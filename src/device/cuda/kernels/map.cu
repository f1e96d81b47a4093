// SPDX-License-Identifier: Apache-2.0
// Compiled with -fmad=false (see CMakeLists.txt), like reduce.cu.
#include <algorithm>

#include "device/cuda/kernels/activation.cuh"
#include "device/cuda/kernels/element.cuh"
#include "device/cuda/kernels/map.hpp"
#include "device/cuda/kernels/table.cuh"

namespace tandem::cuda {
namespace {

constexpr int threads = 256;

template <typename In, typename Out, int N> __device__ void map_pack(const Map& map, std::int64_t first) {
  const Pack<In, N> x = load_pack<In, N>(map.x, first);
  Pack<In, N> y = {};
  const bool two = map.kind == MapKind::add || map.kind == MapKind::activate_grad;
  if (two) y = load_pack<In, N>(map.y, first);
  const bool biased = map.bias != nullptr && (map.kind == MapKind::activate || map.kind == MapKind::activate_grad);
  std::int64_t column = biased ? first % map.columns : 0;
  Pack<Out, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    float a = widen(x.values[i]);
    const float b = widen(y.values[i]);
    if (biased) {
      a += widen(static_cast<const In*>(map.bias)[column]);
      if (++column == map.columns) column = 0;
    }
    switch (map.kind) {
      case MapKind::cast: a *= map.alpha; break;
      case MapKind::activate: a = activate(map.activation, a); break;
      case MapKind::activate_grad: a = b * activate_gradient(map.activation, a); break;
      case MapKind::add: a = map.alpha * a + map.beta * b; break;
    }
    result.values[i] = narrow<Out>(a);
  }
  store_pack<Out, N>(map.out, first, result);
}

template <typename In, typename Out, int N> __global__ void __launch_bounds__(threads) map_kernel(const Map map) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads;
  const std::int64_t packs = map.count / N;
  for (std::int64_t p = thread; p < packs; p += stride) map_pack<In, Out, N>(map, p * N);
  if constexpr (N > 1) {
    const std::int64_t rest = packs * N + thread;
    if (rest < map.count) map_pack<In, Out, 1>(map, rest);
  }
}

template <DType in, DType out> KernelRow row() {
  using In = Element<in>;
  using Out = Element<out>;
  constexpr int width = static_cast<int>(16 / std::min(sizeof(In), sizeof(Out)));
  return {in, out, width, reinterpret_cast<const void*>(&map_kernel<In, Out, width>),
          reinterpret_cast<const void*>(&map_kernel<In, Out, 1>)};
}

const KernelRow table[] = {
    row<f32, f32>(),     row<f32, f16>(),     row<f32, bf16>(),    row<f16, f32>(),    row<f16, f16>(),
    row<f16, bf16>(),    row<bf16, f32>(),    row<bf16, f16>(),    row<bf16, bf16>(),  row<f32, f8e4m3>(),
    row<f16, f8e4m3>(),  row<bf16, f8e4m3>(), row<f32, f8e5m2>(),  row<f16, f8e5m2>(), row<bf16, f8e5m2>(),
    row<f8e4m3, f32>(),  row<f8e4m3, f16>(),  row<f8e4m3, bf16>(), row<f8e5m2, f32>(), row<f8e5m2, f16>(),
    row<f8e5m2, bf16>(),
};

// A block sums 32 columns, so that a warp reads contiguous elements; its 32 rows of threads split the matrix' rows, and
// their partial sums are added in a fixed order: results are reproducible, and the error grows with rows/32.
constexpr int tile = 32;

template <typename T> __global__ void __launch_bounds__(tile* tile) column_sum_kernel(const ColumnSum sum) {
  __shared__ float partial[tile][tile + 1];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * tile + threadIdx.x;
  float total = 0.0F;
  if (column < sum.columns) {
    const T* x = static_cast<const T*>(sum.x) + column;
    for (std::int64_t r = threadIdx.y; r < sum.rows; r += tile) total += widen(x[r * sum.columns]);
  }
  partial[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || column >= sum.columns) return;
  total = partial[0][threadIdx.x];
  for (int r = 1; r < tile; ++r) total += partial[r][threadIdx.x];
  sum.out[column] = sum.accumulate ? sum.out[column] + total : total;
}

const void* column_sum_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return reinterpret_cast<const void*>(&column_sum_kernel<float>);
    case DType::f16: return reinterpret_cast<const void*>(&column_sum_kernel<__half>);
    case DType::bf16: return reinterpret_cast<const void*>(&column_sum_kernel<__nv_bfloat16>);
    default: return nullptr;
  }
}

}  // namespace

bool can_sum_columns(DType dtype) noexcept { return column_sum_of(dtype) != nullptr; }

bool can_map(DType dtype, DType out_dtype) noexcept { return find_kernel(table, dtype, out_dtype) != nullptr; }

cudaError_t launch_map(const Map& map, int max_blocks, cudaStream_t stream) {
  const KernelRow* kernel = find_kernel(table, map.dtype, map.stored());
  const bool vector = aligned16(map.x) && aligned16(map.y) && aligned16(map.out);
  return launch_elements(*kernel, vector, map.count, threads, max_blocks, const_cast<Map*>(&map), stream);
}

cudaError_t launch_column_sum(const ColumnSum& sum, cudaStream_t stream) {
  void* parameters[] = {const_cast<ColumnSum*>(&sum)};
  const std::int64_t blocks = (sum.columns + tile - 1) / tile;
  return cudaLaunchKernel(column_sum_of(sum.dtype), dim3(static_cast<unsigned>(blocks)), dim3(tile, tile), parameters,
                          0, stream);
}

cudaError_t load_map_kernels() {
  if (const cudaError_t result = load_kernels(table); result != cudaSuccess) return result;
  for (const DType dtype : {f32, f16, bf16}) {
    if (const cudaError_t result = load_kernels({column_sum_of(dtype)}); result != cudaSuccess) return result;
  }
  return cudaSuccess;
}

}  // namespace tandem::cuda
