// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tandem/base/dtype.hpp"
#include "tandem/base/export.hpp"
#include "tandem/collective/shard.hpp"
#include "tandem/device/attention.hpp"

namespace tandem {

/// Which tokens of a sequence a rank has.
enum class SequenceSplit : std::uint8_t {
  /// Of 2 · ranks chunks, rank r has chunks r and 2 · ranks - 1 - r, in this order: under a causal mask all ranks then
  /// have equally much to do.
  zigzag,
  contiguous,  ///< as `shard_of` splits them
};

[[nodiscard]] TANDEM_API const char* name(SequenceSplit split) noexcept;

/// The ranges of tokens of a sequence that `rank` has, in the order in which it has them; one or two, perhaps empty.
/// With a length that chunks or shards do not divide, the last ones are shorter or empty.
[[nodiscard]] TANDEM_API std::vector<Shard> tokens_of(SequenceSplit split, std::int64_t tokens, int ranks, int rank);

/// How many tokens `rank` has.
[[nodiscard]] TANDEM_API std::int64_t token_count(SequenceSplit split, std::int64_t tokens, int ranks, int rank);

/// Attention to a sequence of `tokens` that the ranks of a team share. As AttentionSpec says, but queries and keys are
/// those of all ranks: {.right = 0} is causal, and {.left = 4095, .right = 0} a causal window of 4096 tokens.
struct ContextParallelSpec {
  std::int64_t tokens = 0;
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;  ///< divides `heads`
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;  ///< 0: head_dim
  DType dtype = f32;
  AttentionBand band{};
  std::optional<float> scale = std::nullopt;  ///< 1/√head_dim
  SequenceSplit split = SequenceSplit::zigzag;
  bool gradients = true;       ///< `backward` will be called, too
  bool deterministic = false;  ///< see AttentionSpec

  [[nodiscard]] std::int64_t dim_of_values() const noexcept { return value_dim == 0 ? head_dim : value_dim; }
};

}  // namespace tandem
