// SPDX-License-Identifier: Apache-2.0
#include "tandem/attention/context_parallel_spec.hpp"

namespace tandem {

const char* name(SequenceSplit split) noexcept {
  switch (split) {
    case SequenceSplit::zigzag: return "zigzag";
    case SequenceSplit::contiguous: return "contiguous";
  }
  return "?";
}

std::vector<Shard> tokens_of(SequenceSplit split, std::int64_t tokens, int ranks, int rank) {
  if (split == SequenceSplit::contiguous) return {shard_of(tokens, ranks, rank)};
  return {shard_of(tokens, 2 * ranks, rank), shard_of(tokens, 2 * ranks, 2 * ranks - 1 - rank)};
}

std::int64_t token_count(SequenceSplit split, std::int64_t tokens, int ranks, int rank) {
  std::int64_t count = 0;
  for (const Shard& range : tokens_of(split, tokens, ranks, rank)) count += range.count;
  return count;
}

}  // namespace tandem
