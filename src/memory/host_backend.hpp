// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "tandem/memory/backend.hpp"

namespace tandem {

/// The host's memory backend: sealed memfds, mapped shared between processes. They have no name to leave behind.
[[nodiscard]] std::shared_ptr<MemoryBackend> open_host_backend();

}  // namespace tandem
