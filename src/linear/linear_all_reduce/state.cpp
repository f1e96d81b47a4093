// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

#include "base/format.hpp"
#include "linear/algorithms.hpp"

namespace tandem {

LinearAllReduce::State::State(const Team& team, const LinearSpec& spec, const LinearOptions& options)
    : RowParallelState(team, LinearKind::linear_all_reduce, spec, options),
      algorithm_(team.size() == 1 ? &State::alone
                                  : algorithm_named<Algorithm>(choice().algorithm, reducing_algorithms,
                                                               {&State::pipeline, &State::stepwise, &State::stepwise,
                                                                &State::stepwise, &State::direct, &State::sequence})) {}

void LinearAllReduce::State::run(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                 const SymmetricTensor& y, StreamRef stream) {
  expect_reachable(y, "y");
  run(x, weight, bias, y.local(), &y.memory(), stream);
}

void LinearAllReduce::State::run(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                 const TensorView& y, const SymmetricMemory* symmetric, StreamRef stream) {
  const std::int64_t m = expect_inputs(x, weight, bias);
  expect(y, "y", spec().dtype, Dims{m, spec().n});
  expect_apart_from_inputs(y, "y", {{"x", x}, {"weight", weight}, {"bias", bias}});
  expect_alike(stream, [&] {
    return format("a run of {} tokens into {}", m,
                  symmetric ? format("symmetric memory {}", symmetric->id()) : "a plain view");
  });

  const Shard own = shard_of(m, team().size(), team().rank());
  auto* const own_rows = y.narrow(0, own.begin, own.count).data_as<std::byte>();
  const RowParallelOperands operands{x.data_as<std::byte>(), weight.data(), bias.data(), own_rows, m, symmetric};
  run_whole(stream, [&] { (this->*algorithm_)(operands, stream); });
}

void LinearAllReduce::State::exchange_sums(const RowParallelOperands& operands, std::uint32_t round, StreamRef stream,
                                           StreamRef waiting) {
  sums().offer_sums(stream);
  SideStream& taking = communication().last();
  // Queued after the GEMMs that the sums are of: on a GPU a waiting kernel occupies an SM that they could use.
  sums().wait_for_sums(waiting);
  taking.follow(stream);
  sums().take_sums(operands, round, taking.ref());
}

}  // namespace tandem
