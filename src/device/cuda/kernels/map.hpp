// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "tandem/device/reduce.hpp"

namespace tandem::cuda {

/// True if there is a kernel for this pair of dtypes: any of f32, f16 and bf16, or one of them and one of 8 bits.
[[nodiscard]] bool can_map(DType dtype, DType out_dtype) noexcept;

/// `count` must not be 0, and `can_map` must hold for the dtypes. `y` and the bias have the input's dtype.
[[nodiscard]] cudaError_t launch_map(const Map& map, int max_blocks, cudaStream_t stream);
/// True if there is a kernel for this dtype: f32, f16 or bf16.
[[nodiscard]] bool can_sum_columns(DType dtype) noexcept;
/// `can_sum_columns` must hold for the dtype.
[[nodiscard]] cudaError_t launch_column_sum(const ColumnSum& sum, cudaStream_t stream);
[[nodiscard]] cudaError_t load_map_kernels();

}  // namespace tandem::cuda
