// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace tandem {

/// Cache-line-aligned memory, not yet touched; freed by `std::free`. Large blocks begin on a huge page, and use huge
/// pages if the system offers them, for fewer TLB misses in large GEMMs and copies. Throws OutOfMemory.
[[nodiscard]] void* allocate_host_memory(std::size_t bytes);

}  // namespace tandem
