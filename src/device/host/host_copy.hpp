// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tandem/device/copy.hpp"

namespace tandem {

/// Whether stores go through the caches or bypass them. If they bypass them, a large copy does not first read the lines
/// that it overwrites, and does not evict other data.
enum class Stores : std::uint8_t { cached, streaming };

enum class Stored : std::uint8_t { copy, sum };

/// The faster kind of stores for `bytes` of output, written once and in order. As measured, streaming takes half the
/// time for output that fits in no cache, and up to twice as long for output that does.
[[nodiscard]] Stores best_stores(Stored what, std::size_t bytes) noexcept;

/// memcpy. After streaming stores, call `order_streaming_stores` before another thread is told of them.
void copy_bytes(void* to, const void* from, std::size_t bytes, Stores stores) noexcept;

/// Whether the CPU's string instruction, which the kernel copies with, too, drops to a fraction of its speed for these
/// addresses: on some CPUs it does if the destination lies slightly further into its page than the source.
[[nodiscard]] bool string_instruction_falls(const void* to, const void* from) noexcept;

/// Streaming stores are not ordered with a release store, such as a signal, that follows them; after this they are.
void order_streaming_stores() noexcept;

/// Copies all rows of `copy`, on the calling thread.
void copy_now(const Copy& copy) noexcept;

}  // namespace tandem
