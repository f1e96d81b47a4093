// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tandem/base/concepts.hpp"

namespace tandem {

/// Whether bytes stay within a rank's own memory or cross to or from a peer. Only the host's emulated link depends on
/// it.
enum class Path : std::uint8_t { local, link };

/// A copy of `rows` rows of `bytes` each; `dst_pitch` and `src_pitch` are the bytes from one row's start to the next
/// one's (ignored for a single row). Source and destination must not overlap.
struct Copy {
  void* dst = nullptr;
  const void* src = nullptr;
  std::size_t bytes = 0;
  std::size_t rows = 1;
  std::size_t dst_pitch = 0;
  std::size_t src_pitch = 0;
  Path path = Path::local;
  /// Total bytes, if this is one part of a larger copy: the host may bypass its caches for copies that exceed them.
  std::size_t part_of = 0;
};
static_assert(Plain<Copy>);

/// A copy of `bytes` from one source to several destinations; none of them may overlap.
struct Spread {
  const void* source = nullptr;
  std::span<void* const> destinations;
  std::size_t bytes = 0;
};

}  // namespace tandem
