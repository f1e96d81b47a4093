// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "tandem/memory/backend.hpp"

namespace tandem {

/// CUDA's memory backend: VMM allocations that travel as POSIX file descriptors. Ranks may share a GPU, drive different
/// ones, or see only their own. Empty string if it can be used with `device`, a CUDA device; otherwise why not.
[[nodiscard]] std::string why_no_cuda_backend(const Device& device);
[[nodiscard]] std::shared_ptr<MemoryBackend> open_cuda_backend(std::shared_ptr<Device> device);

}  // namespace tandem
