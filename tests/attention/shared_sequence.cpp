// SPDX-License-Identifier: Apache-2.0
#include "attention/shared_sequence.hpp"

#include <cmath>
#include <cstddef>

#include "tandem/device/device.hpp"

#include "linear/tensors.hpp"
#include "support/attention_oracle.hpp"
#include "support/oracle.hpp"
#include "support/ranks.hpp"

namespace tandem::testing {
namespace {

enum Kind : std::uint64_t { of_q = 1, of_k, of_v, of_grad_out, of_delays };

std::int64_t query_row(const ContextParallelSpec& spec) { return spec.batch * spec.heads * spec.head_dim; }
std::int64_t out_row(const ContextParallelSpec& spec) { return spec.batch * spec.heads * spec.dim_of_values(); }
std::int64_t key_row(const ContextParallelSpec& spec) { return spec.batch * spec.kv_heads * spec.head_dim; }
std::int64_t value_row(const ContextParallelSpec& spec) { return spec.batch * spec.kv_heads * spec.dim_of_values(); }

}  // namespace

SharedSequence::SharedSequence(const Team& team, const ContextParallelSpec& spec, std::uint64_t sequence)
    : team_(team),
      spec_(spec),
      key_(key(seed(), {sequence})),
      stream_(team.device()),
      other_stream_(team.device()),
      attention_(team, spec),
      tokens_(token_count(spec.split, spec.tokens, team.size(), team.rank())) {}

std::vector<double> SharedSequence::values(std::uint64_t number, std::uint64_t kind, std::int64_t count) const {
  return random_values(key(key_, {number, kind}), count, spec_.dtype);
}

std::vector<double> SharedSequence::own(const std::vector<double>& all, std::int64_t row) const {
  std::vector<double> mine;
  for (const Shard& range : tokens_of(spec_.split, spec_.tokens, team_.size(), team_.rank())) {
    const auto begin = all.begin() + range.begin * row;
    mine.insert(mine.end(), begin, begin + range.count * row);
  }
  return mine;
}

SharedSequence::Run& SharedSequence::fresh() {
  const std::uint64_t number = runs_.size() + 1;
  const auto given = [&](std::uint64_t kind, std::int64_t heads, std::int64_t dim) {
    const std::int64_t row = spec_.batch * heads * dim;
    return GuardedTensor(team_.shared_device(), {tokens_, spec_.batch, heads, dim}, spec_.dtype,
                         std::span<const double>(own(values(number, kind, spec_.tokens * row), row)));
  };
  const auto poisoned = [&](std::int64_t heads, std::int64_t dim) {
    return GuardedTensor(team_, {tokens_, spec_.batch, heads, dim}, spec_.dtype);
  };
  const std::int64_t values_dim = spec_.dim_of_values();
  runs_.push_back({number, given(of_q, spec_.heads, spec_.head_dim), given(of_k, spec_.kv_heads, spec_.head_dim),
                   given(of_v, spec_.kv_heads, values_dim), given(of_grad_out, spec_.heads, values_dim),
                   poisoned(spec_.heads, values_dim), GuardedTensor(team_, {spec_.batch, spec_.heads, tokens_}, f32),
                   poisoned(spec_.heads, spec_.head_dim), poisoned(spec_.kv_heads, spec_.head_dim),
                   poisoned(spec_.kv_heads, values_dim)});
  return runs_.back();
}

const Stream& SharedSequence::next_stream() { return ++calls_ % streams_ == 0 ? stream_ : other_stream_; }

void SharedSequence::maybe_delay(const Stream& stream) {
  testing::maybe_delay(stream, random_bits(key(key_, {of_delays, static_cast<std::uint64_t>(team_.rank())}), calls_),
                       3);
}

void SharedSequence::forward(const Run& run) {
  const Stream& stream = next_stream();
  maybe_delay(stream);
  attention_.forward(run.q.view(), run.k.view(), run.v.view(), run.out.view(), run.lse.view(), stream);
}

void SharedSequence::backward(const Run& run) {
  const Stream& stream = next_stream();
  maybe_delay(stream);
  attention_.backward(run.grad_out.view(), run.q.view(), run.k.view(), run.v.view(), run.out.view(), run.lse.view(),
                      run.dq.view(), run.dk.view(), run.dv.view(), stream);
}

void SharedSequence::run() {
  const Run& run = fresh();
  forward(run);
  if (spec_.gradients) backward(run);
  if (streams_ != 1) return;
  // Peers read what the plan keeps, not these.
  const Stream& stream = next_stream();
  for (const GuardedTensor* const tensor : {&run.k, &run.v}) tensor->poison(stream);
}

void SharedSequence::check() {
  team_.synchronize(stream_);
  team_.synchronize(other_stream_);
  for (const Run& run : runs_) compare(run);
  runs_.clear();
}

void SharedSequence::compare(const Run& run) const {
  const AttentionSpec whole{.batch = spec_.batch,
                            .queries = spec_.tokens,
                            .keys = spec_.tokens,
                            .heads = spec_.heads,
                            .kv_heads = spec_.kv_heads,
                            .head_dim = spec_.head_dim,
                            .value_dim = spec_.value_dim,
                            .dtype = spec_.dtype,
                            .band = spec_.band,
                            .scale = spec_.scale};
  const std::vector<double> q = values(run.number, of_q, spec_.tokens * query_row(spec_));
  const std::vector<double> k = values(run.number, of_k, spec_.tokens * key_row(spec_));
  const std::vector<double> v = values(run.number, of_v, spec_.tokens * value_row(spec_));
  const std::vector<double> grad_out = values(run.number, of_grad_out, spec_.tokens * out_row(spec_));
  const AttentionOracle oracle(whole, q, k, v, grad_out);
  const auto expect_right = [&](const AttentionOracle::Values& all, const GuardedTensor& tensor, std::int64_t row,
                                const char* what) {
    const std::vector<double> expected = own(all.value, row);
    const std::vector<double> allowed = own(all.allowed, row);
    const std::vector<double> magnitude = own(all.magnitude, row);
    const std::vector<double> actual =
        load(tensor.get().data(), static_cast<std::int64_t>(expected.size()), spec_.dtype);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      // Parts are rounded before they are merged: those of `out`, from which gradients are computed, too.
      const double most = 2 * allowed[i] + epsilon(spec_.dtype) * magnitude[i];
      ASSERT_LE(std::abs(actual[i] - expected[i]), most)
          << what << " of run " << run.number << " on rank " << team_.rank() << " of " << team_.size() << ", element "
          << i << ": " << actual[i] << " instead of " << expected[i] << "; " << attention_.describe();
    }
  };
  expect_right(oracle.out, run.out, out_row(spec_), "out");
  const std::int64_t heads = spec_.batch * spec_.heads;
  const std::vector<double> lse = load(run.lse.get().data(), heads * tokens_, f32);
  const auto ranges = tokens_of(spec_.split, spec_.tokens, team_.size(), team_.rank());
  for (std::int64_t head = 0; head < heads; ++head) {
    std::int64_t token = 0;
    for (const Shard& range : ranges) {
      for (std::int64_t i = 0; i < range.count; ++i, ++token) {
        const auto place = static_cast<std::size_t>(head * spec_.tokens + range.begin + i);
        ASSERT_LE(std::abs(lse[static_cast<std::size_t>(head * tokens_ + token)] - oracle.lse.value[place]),
                  oracle.lse.allowed[place] + team_.size() * 0x1p-22)
            << "lse of head " << head << ", token " << range.begin + i;
      }
    }
  }
  if (!spec_.gradients) return;
  expect_right(oracle.dq, run.dq, query_row(spec_), "dq");
  expect_right(oracle.dk, run.dk, key_row(spec_), "dk");
  expect_right(oracle.dv, run.dv, value_row(spec_), "dv");
}

}  // namespace tandem::testing
