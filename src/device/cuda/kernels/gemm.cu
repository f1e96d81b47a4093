// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/kernels/activation.cuh"
#include "device/cuda/kernels/element.cuh"
#include "device/cuda/kernels/gemm.hpp"
#include "device/cuda/kernels/table.cuh"

namespace tandem::cuda {
namespace {

constexpr int tile = 64;   // rows and columns of D that a block computes
constexpr int depth = 16;  // extent in k of A and B in shared memory
constexpr int side = 16;   // side × side threads, each for 4 × 4 elements of D
constexpr int own = tile / side;
constexpr int threads = side * side;

/// An element of 8 bits is widened as its dtype says.
using Byte = std::uint8_t;

template <typename In> __device__ float load(const In* from, std::int64_t at, DType dtype) {
  if constexpr (std::is_same_v<In, Byte>) {
    const __half_raw half = __nv_cvt_fp8_to_halfraw(from[at], dtype == f8e4m3 ? __NV_E4M3 : __NV_E5M2);
    return __half2float(__half(half));
  } else {
    return widen(from[at]);
  }
}

template <typename In, typename Out>
__global__ void __launch_bounds__(threads) tiled_gemm_kernel(const TiledGemmArguments g) {
  __shared__ float a_tile[depth][tile + 1];
  __shared__ float b_tile[depth][tile + 1];
  // Tiles are numbered in the grid's x dimension, the only one that may exceed 65535.
  const std::int64_t column_tiles = (g.n + tile - 1) / tile;
  const std::int64_t row0 = blockIdx.x / column_tiles * tile;
  const std::int64_t column0 = blockIdx.x % column_tiles * tile;
  const int tx = static_cast<int>(threadIdx.x) % side;
  const int ty = static_cast<int>(threadIdx.x) / side;
  const In* a = static_cast<const In*>(g.a);
  const In* b = static_cast<const In*>(g.b);

  float sums[own][own] = {};
  for (std::int64_t p0 = 0; p0 < g.k; p0 += depth) {
    for (int e = static_cast<int>(threadIdx.x); e < tile * depth; e += threads) {
      // Neighboring threads read along the contiguous dimension.
      const int ai = g.a_column == 1 ? e / depth : e % tile;
      const int ap = g.a_column == 1 ? e % depth : e / tile;
      const bool a_inside = row0 + ai < g.m && p0 + ap < g.k;
      a_tile[ap][ai] = a_inside ? load(a, (row0 + ai) * g.a_row + (p0 + ap) * g.a_column, g.a_dtype) : 0.0F;
      const int bj = g.b_column == 1 ? e % tile : e / depth;
      const int bp = g.b_column == 1 ? e / tile : e % depth;
      const bool b_inside = column0 + bj < g.n && p0 + bp < g.k;
      b_tile[bp][bj] = b_inside ? load(b, (p0 + bp) * g.b_row + (column0 + bj) * g.b_column, g.b_dtype) : 0.0F;
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < depth; ++p) {
#pragma unroll
      for (int i = 0; i < own; ++i) {
#pragma unroll
        for (int j = 0; j < own; ++j) {
          sums[i][j] = fmaf(a_tile[p][ty + i * side], b_tile[p][tx + j * side], sums[i][j]);
        }
      }
    }
    __syncthreads();
  }

  const Out* c = static_cast<const Out*>(g.c);
  Out* d = static_cast<Out*>(g.d);
  const Out* bias = static_cast<const Out*>(g.bias);
#pragma unroll
  for (int i = 0; i < own; ++i) {
#pragma unroll
    for (int j = 0; j < own; ++j) {
      const std::int64_t row = row0 + ty + i * side;
      const std::int64_t column = column0 + tx + j * side;
      if (row >= g.m || column >= g.n) continue;
      const std::int64_t place = row * g.ldd + column;
      float x = g.alpha * sums[i][j];
      if (g.a_scale != nullptr) x *= g.a_scale[row * g.scale_step] * g.b_scale[column * g.scale_step];
      // With beta = 0 C is ignored, even if it holds NaNs.
      if (g.beta != 0.0F) x += g.beta * widen(c[place]);
      if (bias != nullptr) x += widen(bias[column]);
      d[place] = narrow<Out>(activate(g.activation, x));
    }
  }
}

struct Row {
  DType in;  // u8: f8 of either kind
  DType out;
  const void* kernel;
};

const Row table[] = {
    {f32, f32, reinterpret_cast<const void*>(&tiled_gemm_kernel<float, float>)},
    {f16, f16, reinterpret_cast<const void*>(&tiled_gemm_kernel<__half, __half>)},
    {f16, f32, reinterpret_cast<const void*>(&tiled_gemm_kernel<__half, float>)},
    {bf16, bf16, reinterpret_cast<const void*>(&tiled_gemm_kernel<__nv_bfloat16, __nv_bfloat16>)},
    {bf16, f32, reinterpret_cast<const void*>(&tiled_gemm_kernel<__nv_bfloat16, float>)},
    {u8, f32, reinterpret_cast<const void*>(&tiled_gemm_kernel<Byte, float>)},
    {u8, f16, reinterpret_cast<const void*>(&tiled_gemm_kernel<Byte, __half>)},
    {u8, bf16, reinterpret_cast<const void*>(&tiled_gemm_kernel<Byte, __nv_bfloat16>)},
};

}  // namespace

cudaError_t launch_tiled_gemm(const TiledGemmArguments& arguments, DType out_dtype, cudaStream_t stream) {
  const DType in = is_float8(arguments.a_dtype) ? u8 : arguments.a_dtype;
  const std::int64_t blocks = (arguments.m + tile - 1) / tile * ((arguments.n + tile - 1) / tile);
  void* parameters[] = {const_cast<TiledGemmArguments*>(&arguments)};
  for (const Row& row : table) {
    if (row.in == in && row.out == out_dtype) {
      return cudaLaunchKernel(row.kernel, dim3(static_cast<unsigned>(blocks)), dim3(threads), parameters, 0, stream);
    }
  }
  return cudaErrorInvalidValue;
}

cudaError_t load_gemm_kernels() {
  for (const Row& row : table) {
    if (const cudaError_t result = load_kernels({row.kernel}); result != cudaSuccess) return result;
  }
  return cudaSuccess;
}

}  // namespace tandem::cuda
