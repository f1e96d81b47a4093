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
      groups(equal_groups(team.size() - 1, choice.groups)),
      algorithm(
          algorithm_named(choice.algorithm, reducing_algorithms, {&State::pipeline, &State::direct, &State::sequence})),
      row_bytes(static_cast<std::size_t>(spec.n) * size_of(spec.dtype)),
      sums(team, spec, choice, PartialSums::Rows::all, operation),
      communication(team) {}

void LinearAllReduce::State::spread(std::byte* y, std::int64_t m, StreamRef stream) {
  Device& device = team.device();
  const RowRange own = shard_rows(m, team.size(), team.rank());
  const auto at = [&](std::byte* base, const RowRange& rows) {
    return base + static_cast<std::size_t>(rows.begin) * row_bytes;
  };
  const auto bytes = [&](const RowRange& rows) { return static_cast<std::size_t>(rows.count) * row_bytes; };
  {
    const TraceRange range(device, stream, "push sums", TraceKind::communication);
    std::vector<Copy> pushes;
    for (const int peer : sums.peers()) {
      pushes.push_back({.dst = at(sums.tail(peer), own), .src = at(y, own), .bytes = bytes(own), .path = Path::link});
    }
    device.copy_batch(stream, pushes);
  }
  {
    const TraceRange range(device, stream, "wait for sums", TraceKind::wait);
    sums.exchange_tail(stream);
  }
  std::vector<Copy> pulls;
  const ShardGroup theirs = whole_shards(0, team.size() - 1);
  for (const RowRange rows : group_rows(m, team.size(), sums.peers(), theirs)) {
    pulls.push_back({.dst = at(y, rows), .src = at(sums.tail(team.rank()), rows), .bytes = bytes(rows)});
  }
  device.copy_batch(stream, pulls);
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
  auto* own_rows = all_rows == nullptr ? nullptr : all_rows + static_cast<std::size_t>(own.begin) * state.row_bytes;
  (state.*state.algorithm)({x.data_as<std::byte>(), weight.data(), bias.data(), own_rows, m}, stream);
  if (!state.sums.is_one_kernel()) state.spread(all_rows, m, stream);
  state.sums.finish(stream);
  end(stream);
}

}  // namespace tandem
