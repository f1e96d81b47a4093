// SPDX-License-Identifier: Apache-2.0
#include "long_sequence/local_blocks.hpp"

#include <algorithm>

#include "tandem/device/device.hpp"

namespace tandem::long_sequence {
namespace {

void* rows(const TensorView& of, const Shard& range) { return of.narrow(0, range.begin, range.count).data(); }

}  // namespace

bool LocalBlocks::know(const AttentionBand& band) noexcept {
  return band.sees_all() || band == AttentionBand{.right = 0};
}

LocalBlocks::LocalBlocks(const Sequence& mine, const Collectives& gathered) : mine_(mine), gathered_(gathered) {
  const ContextParallelSpec& spec = mine.spec();
  const int ranks = mine.team().size();
  const int rank = mine.team().rank();
  const auto ranges = [&](int of) { return tokens_of(spec.split, spec.tokens, ranks, of); };
  const Shard all{0, mine.q().own.size(0)};
  const bool zigzag = spec.split == SequenceSplit::zigzag;
  add(all, {gathered.first_token(rank), all.count}, spec.band);  // gaps between its tokens make no difference
  for (int other = 0; other < ranks; ++other) {
    if (other == rank) continue;
    const std::int64_t first = gathered.first_token(other);
    const Shard all_keys{first, token_count(spec.split, spec.tokens, ranks, other)};
    if (spec.band.sees_all()) {
      add(all, all_keys, {});
    } else if (other < rank) {  // all queries see its first chunk, and none its second
      add(all, zigzag ? Shard{first, ranges(other).front().count} : all_keys, {});
    } else if (zigzag) {  // the second chunk's queries see both of its chunks, the first one's none
      const std::int64_t before = ranges(rank).front().count;
      add({before, all.count - before}, all_keys, {});
    }
  }
  out_ = scratch(mine.out());
  lse_ = scratch(mine.lse());
  dq_ = scratch(mine.dq());
  dk_ = scratch(mine.k().padded);
  dv_ = scratch(mine.v().padded);
}

void LocalBlocks::add(const Shard& queries, const Shard& keys, const AttentionBand& band) {
  if (queries.count == 0 || keys.count == 0) return;
  const auto same = std::ranges::find_if(blocks_, [&](const Block& block) {
    const AttentionSpec& other = block.attention->spec();
    return other.queries == queries.count && other.keys == keys.count && other.band == band;
  });
  if (same != blocks_.end()) {
    blocks_.push_back({queries, keys, same->attention});
    return;
  }
  const ContextParallelSpec& spec = mine_.spec();
  blocks_.push_back({queries, keys,
                     mine_.team().device().attention({.batch = spec.batch,
                                                      .queries = queries.count,
                                                      .keys = keys.count,
                                                      .heads = spec.heads,
                                                      .kv_heads = spec.kv_heads,
                                                      .head_dim = spec.head_dim,
                                                      .value_dim = spec.value_dim,
                                                      .dtype = spec.dtype,
                                                      .band = band,
                                                      .scale = spec.scale,
                                                      .gradients = true,
                                                      .deterministic = spec.deterministic})});
}

TensorView LocalBlocks::scratch(const TensorView& like) {
  buffers_.emplace_back(mine_.team().shared_device(), like.bytes());
  return buffers_.back().view(like.sizes(), like.dtype());
}

std::int64_t LocalBlocks::pairs() const {
  std::int64_t pairs = 0;
  for (const Block& block : blocks_) {
    pairs += visible_pairs(block.queries.count, block.keys.count, block.attention->spec().band);
  }
  return pairs;
}

void LocalBlocks::forward(StreamRef stream) const {
  for (const Block& block : blocks_) {
    block.attention->forward(stream, {.q = rows(mine_.q().own, block.queries),
                                      .k = rows(gathered_.keys(), block.keys),
                                      .v = rows(gathered_.values(), block.keys),
                                      .out = out_.data(),
                                      .lse = lse_.data_as<float>()});
  }
}

void LocalBlocks::backward(StreamRef stream) const {
  for (const Block& block : blocks_) {
    block.attention->backward(stream, {.grad_out = rows(mine_.grad_out().own, block.queries),
                                       .q = rows(mine_.q().own, block.queries),
                                       .k = rows(gathered_.keys(), block.keys),
                                       .v = rows(gathered_.values(), block.keys),
                                       .out = out_.data(),
                                       .lse = lse_.data_as<float>(),
                                       .dq = dq_.data(),
                                       .dk = dk_.data(),
                                       .dv = dv_.data()});
  }
}

}  // namespace tandem::long_sequence
