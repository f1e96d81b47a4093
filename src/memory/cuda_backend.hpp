// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "tandem/memory/backend.hpp"

namespace tandem {

/// Why CUDA's memory backend cannot be used with `device`, a CUDA device; empty if it can. It makes VMM allocations,
/// sent as POSIX file descriptors. Ranks may share a GPU, use different ones, or see only their own.
[[nodiscard]] std::string why_no_cuda_backend(const Device& device);
[[nodiscard]] std::shared_ptr<MemoryBackend> open_cuda_backend(std::shared_ptr<Device> device);

}  // namespace tandem
