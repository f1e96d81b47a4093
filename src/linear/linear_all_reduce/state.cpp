// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_all_reduce/state.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "linear/algorithms.hpp"

namespace tandem {

LinearAllReduce::State::State(const Team& team, const LinearSpec& spec, const LinearOptions& options)
    : LinearPlanState(team, LinearKind::linear_all_reduce, spec, options, OwnShare::k),
      algorithm_(team.size() == 1 ? &State::alone
                                  : algorithm_named(choice().algorithm, reducing_algorithms,
                                                    {&State::pipeline, &State::stepwise, &State::stepwise,
                                                     &State::stepwise, &State::direct, &State::sequence})),
      sums_(team, spec, choice(), PartialSums::Rows::all, rounds_of(choice().algorithm, std::max(choice().groups, 1)),
            operation()),
      communication_(team, choice().algorithm == tandem::sequence ? 0 : CommunicationStreams::for_copies(team)) {
  describe_product(sums_.gemm(), sums_.communication(), sums_.adding());
  keep_in_graphs(sums_.owners());
}

void LinearAllReduce::State::run(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                 const SymmetricTensor& y, StreamRef stream) {
  expect_reachable(y, "y");
  run(x, weight, bias, y.local(), &y.memory(), stream);
}

void LinearAllReduce::State::run(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                 const TensorView& y, const SymmetricMemory* symmetric, StreamRef stream) {
  const std::int64_t m = tokens(x, "x", spec().x_layout == Layout::normal ? 0 : 1);
  expect(x, "x", spec().dtype, stored(spec().x_layout, m, spec().k));
  expect(weight, "weight", spec().dtype, stored(spec().weight_layout, spec().n, spec().k));
  expect_bias(bias);
  expect(y, "y", spec().dtype, Dims{m, spec().n});
  expect_apart_from_inputs(y, "y", {{"x", x}, {"weight", weight}, {"bias", bias}});
  expect_alike(stream, [&] {
    return format("a run of {} tokens into {}", m,
                  symmetric ? format("symmetric memory {}", symmetric->id()) : "a plain view");
  });

  begin(stream);
  const Shard own = shard_of(m, team().size(), team().rank());
  auto* const own_rows = y.narrow(0, own.begin, own.count).data_as<std::byte>();
  const PartialSums::Operands operands{x.data_as<std::byte>(), weight.data(), bias.data(), own_rows, m, symmetric};
  whole_or_failed([&] {
    rejoin_if_thrown(communication_, stream, [&] { (this->*algorithm_)(operands, stream); });
    sums_.finish(stream);
    end(stream);
  });
}

void LinearAllReduce::State::exchange_sums(const PartialSums::Operands& operands, std::uint32_t round, StreamRef stream,
                                           StreamRef waiting) {
  sums_.offer_sums(stream);
  SideStream& taking = communication_.last();
  // Queued after the GEMMs that the sums are of: on a GPU a waiting kernel occupies an SM that they could use.
  sums_.wait_for_sums(waiting);
  taking.follow(stream);
  sums_.take_sums(operands, round, taking.ref());
}

}  // namespace tandem
