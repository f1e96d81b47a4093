// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "device/host/host_memory.hpp"

namespace tandem {

struct FreeWorkspace {
  void operator()(void* memory) const noexcept { std::free(memory); }
};

/// A GEMM's scratch memory, cache-line-aligned and not yet touched; null if it needs none.
template <typename T> using Workspace = std::unique_ptr<T[], FreeWorkspace>;

template <typename T> [[nodiscard]] Workspace<T> make_workspace(std::size_t elements) {
  if (elements == 0) return nullptr;
  return Workspace<T>(static_cast<T*>(allocate_host_memory(elements * sizeof(T))));
}

}  // namespace tandem
