// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "tandem/attention/context_parallel_spec.hpp"
#include "tandem/base/dtype.hpp"

namespace tandem {

/// Of what attention and copies read.
inline constexpr std::size_t key_value_alignment = 256;

/// Bytes of one token's keys and of its values, or of their gradients, in all batches and heads.
struct KeyValueRows {
  std::size_t key = 0;
  std::size_t value = 0;

  [[nodiscard]] std::size_t keys(std::int64_t tokens) const noexcept { return static_cast<std::size_t>(tokens) * key; }
  [[nodiscard]] std::size_t values(std::int64_t tokens) const noexcept {
    return static_cast<std::size_t>(tokens) * value;
  }
  [[nodiscard]] std::size_t both(std::int64_t tokens) const noexcept { return keys(tokens) + values(tokens); }
};

[[nodiscard]] inline KeyValueRows key_value_rows(const ContextParallelSpec& spec) noexcept {
  const std::size_t heads = static_cast<std::size_t>(spec.batch * spec.kv_heads) * size_of(spec.dtype);
  return {heads * static_cast<std::size_t>(spec.head_dim), heads * static_cast<std::size_t>(spec.dim_of_values())};
}

/// Where a block's keys and values are, or where their gradients belong.
struct KeysAndValues {
  std::byte* keys = nullptr;
  std::byte* values = nullptr;
};

}  // namespace tandem
