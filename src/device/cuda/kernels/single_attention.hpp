// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "tandem/device/attention.hpp"

namespace tandem::cuda {

// Attention of a single query to a single key, of f16 or bf16, in as many heads and batches as the spec has.

[[nodiscard]] cudaError_t launch_single_forward(const AttentionSpec& spec, const AttentionOperands& operands,
                                                cudaStream_t stream);
[[nodiscard]] cudaError_t launch_single_backward(const AttentionSpec& spec, const AttentionGradientOperands& operands,
                                                 cudaStream_t stream);
[[nodiscard]] cudaError_t load_single_attention_kernels();

}  // namespace tandem::cuda
