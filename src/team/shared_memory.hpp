// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "tandem/team/file_descriptor.hpp"

namespace tandem {

/// A memfd of `bytes`, which are whole pages: zeroed, taken from the machine now, and of a size that nobody can change.
/// It has no name to leave behind; peers are sent the descriptor. Throws OutOfMemory.
[[nodiscard]] FileDescriptor create_shared_memory(std::size_t bytes);

}  // namespace tandem
