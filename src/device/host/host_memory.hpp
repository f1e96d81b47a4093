// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace tandem {

/// Memory on a cache line's boundary, not yet touched; `std::free` frees it. Large blocks begin on a huge page, where
/// the system offers those: fewer misses of the TLB in large products and copies. Throws OutOfMemory.
[[nodiscard]] void* allocate_host_memory(std::size_t bytes);

}  // namespace tandem
