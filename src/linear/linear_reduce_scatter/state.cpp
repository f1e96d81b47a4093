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

void LinearReduceScatter::State::run(const LinearOperands& given, StreamRef stream) {
  const std::int64_t m = expect_inputs(given);
  expect(given.y, "y", spec().dtype_of_y(), Dims{own_rows(m), spec().n});
  expect_apart_from_inputs(given.y, "y", given);
  expect_alike(stream, [&] { return format("a run of {} tokens", m); });

  const RowParallelOperands run = operands(given, given.y.data_as<std::byte>(), m);
  run_whole(stream, [&] { (this->*algorithm_)(run, stream); });
}

}  // namespace tandem
