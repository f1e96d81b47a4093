// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "tandem/device/attention.hpp"

namespace tandem::cuda {

/// Of what `check_merge` has found to have something to do.
[[nodiscard]] cudaError_t launch_merge(const AttentionMerge& merge, cudaStream_t stream);
[[nodiscard]] cudaError_t load_merge_kernels();

}  // namespace tandem::cuda
