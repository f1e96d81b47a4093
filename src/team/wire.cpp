// SPDX-License-Identifier: Apache-2.0
#include "team/wire.hpp"

#include <cstring>

namespace tandem {

// Not inline: GCC 13 would inline `resize` into callers, and then warn of a size that wraps around.
void WireWriter::append(const void* data, std::size_t size) {
  if (size == 0) return;
  const std::size_t before = bytes_.size();
  bytes_.resize(before + size);
  std::memcpy(bytes_.data() + before, data, size);
}

}  // namespace tandem
