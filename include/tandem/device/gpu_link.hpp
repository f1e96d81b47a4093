// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tandem/base/export.hpp"

namespace tandem {

/// What links two of the GPUs that this process can use, in words: "NVLink (18 links), peer access with atomics,
/// performance rank 0", or why one cannot reach the other's memory. Both are numbers as in "cuda:1". Throws
/// InvalidArgument for a number out of range or two that are the same, Unsupported in a build without CUDA.
[[nodiscard]] TANDEM_API std::string describe_gpu_link(int one, int other);

}  // namespace tandem
