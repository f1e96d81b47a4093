// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem {

/// Whether bytes stay within a rank's own memory or cross to a peer. The host's emulated link looks
/// at it, and what is best for a copy alone.
enum class Path : std::uint8_t { local, link };

/// `rows` rows of `bytes` each; `dst_pitch` and `src_pitch` are the bytes from one row's start to the next one's
/// (not read for a single row). Source and destination do not overlap.
struct Copy {
  void* dst = nullptr;
  const void* src = nullptr;
  std::size_t bytes = 0;
  std::size_t rows = 1;
  std::size_t dst_pitch = 0;
  std::size_t src_pitch = 0;
  Path path = Path::local;
  /// Bytes of all parts, where this is one of several: the host stores past its caches what those do not hold.
  std::size_t part_of = 0;
};

/// What one place holds, to several others; none of them overlap.
struct Spread {
  const void* source = nullptr;
  std::span<void* const> destinations;
  std::size_t bytes = 0;
};

}  // namespace tandem
