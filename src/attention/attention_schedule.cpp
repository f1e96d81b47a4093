// SPDX-License-Identifier: Apache-2.0
#include "attention/attention_schedule.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace tandem {
namespace {

std::int64_t end_of(const Shard& range) { return range.begin + range.count; }

Shard behind(const Shard& range, std::int64_t offset) { return {range.begin + offset, range.count}; }

/// The two blocks as one, if they are all of a larger rectangle.
std::optional<AttentionBlock> joined(const AttentionBlock& a, const AttentionBlock& b) {
  if (!a.band.sees_all() || !b.band.sees_all()) return std::nullopt;
  if (a.keys == b.keys && end_of(a.queries) == b.queries.begin) {
    return AttentionBlock{{a.queries.begin, a.queries.count + b.queries.count}, a.keys, {}};
  }
  if (a.queries == b.queries && end_of(a.keys) == b.keys.begin) {
    return AttentionBlock{a.queries, {a.keys.begin, a.keys.count + b.keys.count}, {}};
  }
  return std::nullopt;
}

/// Whether the rank's keys may be treated as a sequence of their own: under a causal mask without a window, a gap
/// between its tokens makes no difference.
bool is_sequence(const AttentionBand& band) { return !band.left && (!band.right || *band.right == 0); }

Shard keys_of(const std::vector<AttentionBlock>& blocks) {
  std::int64_t begin = blocks.front().keys.begin;
  std::int64_t end = begin;
  for (const AttentionBlock& block : blocks) {
    begin = std::min(begin, block.keys.begin);
    end = std::max(end, end_of(block.keys));
  }
  return {begin, end - begin};
}

}  // namespace

// In the ranges' own counts, query i sees key j if i + offset - left ≤ j ≤ i + offset + right, with the distance of the
// ranges' beginnings as the offset. A local attention has no offset: where its bounds would be negative, the first
// queries, or keys, are left out instead.
std::optional<AttentionBlock> visible_block(const Shard& queries, const Shard& keys, const AttentionBand& band) {
  const std::int64_t offset = queries.begin - keys.begin;
  AttentionBlock block{{0, queries.count}, {0, keys.count}, {}};
  if (block.queries.count == 0 || block.keys.count == 0) return std::nullopt;
  std::optional<std::int64_t> left;
  std::optional<std::int64_t> right;
  if (band.right) right = offset + *band.right;
  if (band.left) left = *band.left - offset;
  if (right && *right < 0) {  // the first queries see nothing
    const std::int64_t blind = -*right;
    block.queries = {blind, queries.count - blind};
    right = 0;
    if (left) *left -= blind;
  }
  if (left && *left < 0) {  // nothing sees the first keys
    const std::int64_t unseen = -*left;
    block.keys = {unseen, keys.count - unseen};
    left = 0;
    if (right) *right -= unseen;
  }
  if (block.queries.count <= 0 || block.keys.count <= 0) return std::nullopt;
  // The last queries see nothing if they are further behind the last key than the left bound.
  if (left && block.queries.count > block.keys.count + *left) block.queries.count = block.keys.count + *left;
  // Nor does anything see keys beyond the right bound of the last query.
  if (right && block.keys.count > block.queries.count + *right) block.keys.count = block.queries.count + *right;
  if (left && *left < block.queries.count - 1) block.band.left = left;
  if (right && *right < block.keys.count - 1) block.band.right = right;
  return block;
}

std::vector<AttentionBlock> visible_blocks(const std::vector<Shard>& queries, const std::vector<Shard>& keys,
                                           const AttentionBand& band) {
  std::vector<AttentionBlock> blocks;
  std::int64_t query = 0;
  for (const Shard& some_queries : queries) {
    std::int64_t key = 0;
    for (const Shard& some_keys : keys) {
      if (const auto block = visible_block(some_queries, some_keys, band)) {
        blocks.push_back({behind(block->queries, query), behind(block->keys, key), block->band});
      }
      key += some_keys.count;
    }
    query += some_queries.count;
  }
  return blocks;
}

std::vector<AttentionBlock> joined(std::vector<AttentionBlock> blocks) {
  for (std::size_t i = 0; i < blocks.size();) {
    std::size_t j = 0;
    while (j < blocks.size() && !joined(blocks[i], blocks[j])) ++j;
    if (j == blocks.size()) {
      ++i;
      continue;
    }
    blocks[i] = *joined(blocks[i], blocks[j]);
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(j));
    i = 0;  // the new block may fit an earlier one
  }
  return blocks;
}

AttentionSchedule::AttentionSchedule(const ContextParallelSpec& spec, int ranks, int rank)
    : tokens_(token_count(spec.split, spec.tokens, ranks, rank)) {
  const auto ranges = [&](int of) { return tokens_of(spec.split, spec.tokens, ranks, of); };
  const std::vector<Shard> mine = ranges(rank);
  if (is_sequence(spec.band)) {
    if (tokens_ != 0) own_ = {{{0, tokens_}, {0, tokens_}, spec.band}};
  } else {
    own_ = visible_blocks(mine, mine, spec.band);
    // First those of a range with itself: together they have all queries, and all keys.
    std::ranges::stable_partition(own_, [](const AttentionBlock& block) { return block.queries == block.keys; });
  }
  for (int distance = 1; distance < ranks; ++distance) {
    const int owner = (rank + distance) % ranks;
    std::vector<AttentionBlock> blocks = joined(visible_blocks(mine, ranges(owner), spec.band));
    if (!blocks.empty()) {
      const Shard keys = keys_of(blocks);
      for (AttentionBlock& block : blocks) block.keys.begin -= keys.begin;
      fetches_.push_back({owner, distance, keys, std::move(blocks)});
    }
    const int reader = (rank - distance + ranks) % ranks;
    const std::vector<AttentionBlock> read = visible_blocks(ranges(reader), mine, spec.band);
    if (!read.empty()) returns_.push_back({reader, distance, keys_of(read)});
  }
}

}  // namespace tandem
