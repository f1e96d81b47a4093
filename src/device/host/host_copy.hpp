// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tandem/device/copy.hpp"

namespace tandem {

/// Whether stores go through the caches or past them. Past them, a large copy does not first read what it overwrites,
/// and leaves the caches to others.
enum class Stores : std::uint8_t { cached, streaming };

enum class Stored : std::uint8_t { copy, sum };

/// What `bytes` of output, written once and front to back, are best stored with: measured, streaming takes half the
/// time for what no cache holds, and up to twice as long for what one does.
[[nodiscard]] Stores best_stores(Stored what, std::size_t bytes) noexcept;

/// memcpy. After streaming stores, and before anybody is told of them, comes `order_streaming_stores`.
void copy_bytes(void* to, const void* from, std::size_t bytes, Stores stores) noexcept;

/// Whether the CPU's string instruction, which kernels copy with, too, falls to a fraction of its pace from here to
/// there: on some CPUs it does where the destination lies a little further into its page than the source.
[[nodiscard]] bool string_instruction_falls(const void* to, const void* from) noexcept;

/// Streaming stores are not ordered with a release store, such as a signal, that follows them; after this they are.
void order_streaming_stores() noexcept;

/// All rows of `copy`, on the calling thread.
void copy_now(const Copy& copy) noexcept;

}  // namespace tandem
