// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "tandem/base/error.hpp"

#include "base/format.hpp"

namespace tandem {

struct FreeWorkspace {
  void operator()(void* memory) const noexcept { std::free(memory); }
};

/// Memory that a GEMM works in, on a cache line's boundary and not yet touched; null if it needs none.
template <typename T> using Workspace = std::unique_ptr<T[], FreeWorkspace>;

template <typename T> [[nodiscard]] Workspace<T> make_workspace(std::size_t elements) {
  if (elements == 0) return nullptr;
  const std::size_t bytes = (elements * sizeof(T) + 63) / 64 * 64;
  void* const memory = std::aligned_alloc(64, bytes);
  if (memory == nullptr) throw OutOfMemory(format("host device: a GEMM's workspace of {} bytes", bytes));
  return Workspace<T>(static_cast<T*>(memory));
}

}  // namespace tandem
