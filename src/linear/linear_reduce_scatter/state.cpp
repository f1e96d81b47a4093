// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_reduce_scatter/state.hpp"

#include "base/format.hpp"
#include "linear/algorithms.hpp"

namespace tandem {

LinearReduceScatter::State::State(const Team& team, const LinearSpec& spec, const LinearOptions& options)
    : RowParallelState(team, LinearKind::linear_reduce_scatter, spec, options),
      groups_(equal_groups(team.size() - 1, choice().groups)),
      algorithm_(team.size() == 1 ? &State::alone
                                  : algorithm_named<Algorithm>(choice().algorithm, scattering_algorithms,
                                                               {&State::pipeline, &State::direct, &State::sequence})) {}

void LinearReduceScatter::State::run(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                     const TensorView& y, StreamRef stream) {
  const std::int64_t m = expect_inputs(x, weight, bias);
  expect(y, "y", spec().dtype, Dims{own_rows(m), spec().n});
  expect_apart_from_inputs(y, "y", {{"x", x}, {"weight", weight}, {"bias", bias}});
  expect_alike(stream, [&] { return format("a run of {} tokens", m); });

  const RowParallelOperands operands{x.data_as<std::byte>(), weight.data(), bias.data(), y.data_as<std::byte>(), m};
  run_whole(stream, [&] { (this->*algorithm_)(operands, stream); });
}

}  // namespace tandem
