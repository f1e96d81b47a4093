// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

#include "tandem/base/dtype.hpp"
#include "tandem/device/gemm.hpp"

namespace tandem::cuda {

/// D[i, j] = activation(alpha · Σ_p A[i, p] · B[p, j] + beta · C[i, j] + bias[j]), with A and B times their scales, if
/// there are any; C may be D. Element [i, p] of A is at i · a_row + p · a_column, and B likewise, so that no case
/// depends on transposes or leading dimensions.
struct TiledGemmArguments {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  const void* bias = nullptr;
  const float* a_scale = nullptr;  ///< the first, or only, one; null: none
  const float* b_scale = nullptr;
  int scale_step = 0;  ///< from one row of A, or column of B, to the next: 0 or 1
  DType a_dtype = f32;
  DType b_dtype = f32;  ///< `a_dtype`, or both have 8 bits
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t a_row = 0;
  std::int64_t a_column = 0;
  std::int64_t b_row = 0;
  std::int64_t b_column = 0;
  std::int64_t ldd = 0;  ///< also of C
  float alpha = 1.0F;
  float beta = 0.0F;
  Activation activation = Activation::none;
};

/// A GEMM for any size, stride and alignment, in fp32 with one rounding at the end; slow compared to cuBLASLt. With
/// k = 0 it reads neither A nor B, but still applies beta, bias and activation. `m` and `n` must not be 0; the operands
/// are f32, f16 or bf16, and `out_dtype` is the same or f32, or they have 8 bits, and it is any of these three.
[[nodiscard]] cudaError_t launch_tiled_gemm(const TiledGemmArguments& arguments, DType out_dtype, cudaStream_t stream);
[[nodiscard]] cudaError_t load_gemm_kernels();

}  // namespace tandem::cuda
