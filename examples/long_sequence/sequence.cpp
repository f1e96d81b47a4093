// SPDX-License-Identifier: Apache-2.0
#include "long_sequence/sequence.hpp"

#include <algorithm>
#include <cstddef>

#include "common/random_values.hpp"

namespace tandem::long_sequence {

std::int64_t most_tokens(const ContextParallelSpec& spec, int ranks) {
  std::int64_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) most = std::max(most, token_count(spec.split, spec.tokens, ranks, rank));
  return most;
}

std::int64_t visible_pairs(std::int64_t queries, std::int64_t keys, const AttentionBand& band) {
  std::int64_t pairs = 0;
  for (std::int64_t query = 0; query < queries; ++query) {
    const std::int64_t begin = band.left ? std::max<std::int64_t>(0, query - *band.left) : 0;
    const std::int64_t end = band.right ? std::min(keys, query + *band.right + 1) : keys;
    pairs += std::max<std::int64_t>(0, end - begin);
  }
  return pairs;
}

Sequence::Sequence(const Team& team, const ContextParallelSpec& spec) : team_(team), spec_(spec) {
  const std::int64_t own = token_count(spec.split, spec.tokens, team.size(), team.rank());
  const std::int64_t most = most_tokens(spec, team.size());
  auto seed = 10 * static_cast<unsigned>(team.rank());
  const auto filled = [&](std::int64_t heads, std::int64_t dim) {
    const TensorView padded = tensor({most, spec.batch, heads, dim}, spec.dtype);
    examples::fill_randomly(team.device(), padded, seed++, 1);
    return Tokens{padded.narrow(0, 0, own), padded};
  };
  const auto result = [&](std::int64_t heads, std::int64_t dim) {
    return tensor({own, spec.batch, heads, dim}, spec.dtype);
  };
  q_ = filled(spec.heads, spec.head_dim);
  k_ = filled(spec.kv_heads, spec.head_dim);
  v_ = filled(spec.kv_heads, spec.dim_of_values());
  grad_out_ = filled(spec.heads, spec.dim_of_values());
  out_ = result(spec.heads, spec.dim_of_values());
  lse_ = tensor({spec.batch, spec.heads, own}, f32);
  dq_ = result(spec.heads, spec.head_dim);
  dk_ = result(spec.kv_heads, spec.head_dim);
  dv_ = result(spec.kv_heads, spec.dim_of_values());
}

TensorView Sequence::tensor(const Dims& sizes, DType dtype) {
  buffers_.emplace_back(team_.shared_device(), static_cast<std::size_t>(sizes.numel()) * size_of(dtype));
  return buffers_.back().view(sizes, dtype);
}

void Sequence::forward(ContextParallelAttention& attention, StreamRef stream) const {
  attention.forward(q_.own, k_.own, v_.own, out_, lse_, stream);
}

void Sequence::backward(ContextParallelAttention& attention, StreamRef stream) const {
  attention.backward(grad_out_.own, q_.own, k_.own, v_.own, out_, lse_, dq_, dk_, dv_, stream);
}

}  // namespace tandem::long_sequence
