// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/linear_all_reduce.hpp"

#include "base/format.hpp"
#include "linear/algorithms.hpp"
#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

LinearAllReduce::State::State(const Team& its_team, const LinearSpec& its_spec, const LinearChoice& choice,
                              std::uint32_t operation)
    : team(its_team),
      spec(its_spec),
      algorithm(team.size() == 1 ? &State::alone
                                 : algorithm_named(choice.algorithm, reducing_algorithms,
                                                   {&State::pipeline, &State::stepwise, &State::stepwise,
                                                    &State::stepwise, &State::direct, &State::sequence})),
      sums(team, spec, choice, PartialSums::Rows::all, rounds_of(choice.algorithm, std::max(choice.groups, 1)),
           operation),
      communication(team, choice.algorithm == tandem::sequence ? 0 : CommunicationStreams::for_copies(team)) {}

void LinearAllReduce::State::exchange_sums(const PartialSums::Operands& run, std::uint32_t round, StreamRef stream,
                                           StreamRef waiting) {
  sums.offer_sums(stream);
  SideStream& taking = communication.last();
  // Queued after the GEMMs that the sums are of: on a GPU a waiting kernel occupies an SM that they could use.
  sums.wait_for_sums(waiting);
  taking.follow(stream);
  sums.take_sums(run, round, taking.ref());
}

LinearAllReduce::LinearAllReduce(const Team& team, const LinearSpec& spec, const LinearOptions& options)
    : LinearPlan(team, LinearKind::linear_all_reduce, spec, options, OwnShare::k),
      state_(std::make_unique<State>(team, spec, choice(), operation())) {
  describe_product(state_->sums.gemm(), state_->sums.communication(), state_->sums.adding());
  keep_in_graphs(state_->sums.parts());
}

LinearAllReduce::LinearAllReduce(LinearAllReduce&&) noexcept = default;
LinearAllReduce& LinearAllReduce::operator=(LinearAllReduce&&) noexcept = default;
LinearAllReduce::~LinearAllReduce() = default;

void LinearAllReduce::operator()(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream) {
  run(x, weight, TensorView(), y, nullptr, stream);
}

void LinearAllReduce::operator()(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                 const TensorView& y, StreamRef stream) {
  run(x, weight, bias, y, nullptr, stream);
}

void LinearAllReduce::operator()(const TensorView& x, const TensorView& weight, const SymmetricTensor& y,
                                 StreamRef stream) {
  (*this)(x, weight, TensorView(), y, stream);
}

void LinearAllReduce::operator()(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                 const SymmetricTensor& y, StreamRef stream) {
  expect_reachable(y, "y");
  run(x, weight, bias, y.local(), &y.memory(), stream);
}

void LinearAllReduce::run(const TensorView& x, const TensorView& weight, const TensorView& bias, const TensorView& y,
                          const SymmetricMemory* symmetric, StreamRef stream) {
  const std::int64_t m = tokens(x, "x", spec().x == Layout::normal ? 0 : 1);
  expect(x, "x", spec().dtype, stored(spec().x, m, spec().k));
  expect(weight, "weight", spec().dtype, stored(spec().weight, spec().n, spec().k));
  expect_bias(bias);
  expect(y, "y", spec().dtype, Dims{m, spec().n});
  expect_apart_from_inputs(y, "y", {{"x", x}, {"weight", weight}, {"bias", bias}});
  expect_alike(stream, [&] {
    return format("a run of {} tokens into {}", m,
                  symmetric ? format("symmetric memory {}", symmetric->id()) : "a plain view");
  });

  begin(stream);
  State& state = *state_;
  const RowRange own = shard_rows(m, team().size(), team().rank());
  auto* const own_rows = y.narrow(0, own.begin, own.count).data_as<std::byte>();
  const PartialSums::Operands run{x.data_as<std::byte>(), weight.data(), bias.data(), own_rows, m, symmetric};
  whole_or_failed([&] {
    rejoin_if_thrown(state.communication, stream, [&] { (state.*state.algorithm)(run, stream); });
    state.sums.finish(stream);
    end(stream);
  });
}

}  // namespace tandem
