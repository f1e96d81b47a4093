// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/linear_all_reduce.hpp"

#include "tandem/device/trace_range.hpp"

#include "linear/algorithms.hpp"
#include "linear/groups.hpp"
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

LinearAllReduce::State::State(const Team& its_team, const LinearSpec& its_spec, const LinearChoice& choice,
                              std::uint32_t operation)
    : team(its_team),
      spec(its_spec),
      rounds(std::max(choice.groups, 1)),
      algorithm(
          algorithm_named(choice.algorithm, reducing_algorithms, {&State::pipeline, &State::direct, &State::sequence})),
      row_bytes(static_cast<std::size_t>(spec.n) * size_of(spec.dtype)),
      sums(team, spec, choice, PartialSums::Rows::all, operation),
      communication(team) {}

void LinearAllReduce::State::spread(const PartialSums::Operands& run, StreamRef stream) {
  push_sums(run, shard_rows(run.m, team.size(), team.rank()), stream);
  {
    const TraceRange range(team.device(), stream, "wait for sums", TraceKind::wait);
    sums.exchange_tail(stream);
  }
  take_sums(run, stream);
}

void LinearAllReduce::State::push_sums(const PartialSums::Operands& run, const RowRange& rows, StreamRef stream) {
  const TraceRange range(team.device(), stream, "push sums", TraceKind::communication);
  const RowRange own = shard_rows(run.m, team.size(), team.rank());
  std::vector<Copy> pushes;
  for (const int peer : sums.peers()) {
    pushes.push_back({.dst = sums.tail(peer) + bytes_of(rows.begin),
                      .src = run.y + bytes_of(rows.begin - own.begin),
                      .bytes = bytes_of(rows.count),
                      .path = Path::link});
  }
  team.device().copy_batch(stream, pushes);
}

void LinearAllReduce::State::take_sums(const PartialSums::Operands& run, StreamRef stream) {
  std::byte* const y = run.y - bytes_of(shard_rows(run.m, team.size(), team.rank()).begin);  // all rows
  std::vector<Copy> copies;
  const ShardGroup theirs = whole_shards(0, team.size() - 1);
  for (const RowRange rows : group_rows(run.m, team.size(), sums.peers(), theirs)) {
    copies.push_back({.dst = y + bytes_of(rows.begin),
                      .src = sums.tail(team.rank()) + bytes_of(rows.begin),
                      .bytes = bytes_of(rows.count)});
  }
  team.device().copy_batch(stream, copies);
}

LinearAllReduce::LinearAllReduce(const Team& team, const LinearSpec& spec, const LinearOptions& options)
    : LinearPlan(team, LinearKind::linear_all_reduce, spec, options, OwnShare::k),
      state_(std::make_unique<State>(team, spec, choice(), operation())) {
  describe_product(state_->sums.gemm(), state_->sums.is_one_kernel());
  keep_in_graphs(state_->sums.parts());
}

LinearAllReduce::LinearAllReduce(LinearAllReduce&&) noexcept = default;
LinearAllReduce& LinearAllReduce::operator=(LinearAllReduce&&) noexcept = default;
LinearAllReduce::~LinearAllReduce() = default;

void LinearAllReduce::operator()(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream) {
  (*this)(x, weight, TensorView(), y, stream);
}

void LinearAllReduce::operator()(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                 const TensorView& y, StreamRef stream) {
  const std::int64_t m = tokens(x, "x", spec().x == Layout::normal ? 0 : 1);
  expect(x, "x", spec().dtype, stored(spec().x, m, spec().k));
  expect(weight, "weight", spec().dtype, stored(spec().weight, spec().n, spec().k));
  expect_bias(bias);
  expect(y, "y", spec().dtype, Dims{m, spec().n});

  begin(stream);
  State& state = *state_;
  auto* all_rows = y.data_as<std::byte>();
  const RowRange own = shard_rows(m, team().size(), team().rank());
  auto* own_rows = all_rows == nullptr ? nullptr : all_rows + state.bytes_of(own.begin);
  (state.*state.algorithm)({x.data_as<std::byte>(), weight.data(), bias.data(), own_rows, m}, stream);
  state.sums.finish(stream);
  end(stream);
}

}  // namespace tandem
