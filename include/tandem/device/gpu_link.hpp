// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tandem/base/export.hpp"

namespace tandem {

/// Describes the link between two of the GPUs that this process can use: "NVLink (18 links), peer access with atomics,
/// performance rank 0", or why one cannot access the other's memory. Both are indices as in "cuda:1". Throws
/// InvalidArgument for an index out of range or two equal ones, Unsupported in a build without CUDA.
[[nodiscard]] TANDEM_API std::string describe_gpu_link(int one, int other);

}  // namespace tandem
