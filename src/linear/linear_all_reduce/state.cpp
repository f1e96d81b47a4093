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

void LinearAllReduce::State::run(LinearOperands given, const SymmetricTensor& y, StreamRef stream) {
  if (given.y.data() != nullptr) refuse("two outputs were given: a symmetric y, and LinearOperands::y; allowed: one");
  expect_reachable(y, "y");
  given.y = y.local();
  run(given, stream, &y.memory());
}

void LinearAllReduce::State::run(const LinearOperands& given, StreamRef stream, const SymmetricMemory* symmetric) {
  const std::int64_t m = expect_inputs(given);
  expect(given.y, "y", spec().dtype_of_y(), Dims{m, spec().n});
  expect_apart_from_inputs(given.y, "y", given);
  expect_alike(stream, [&] {
    return format("a run of {} tokens into {}", m,
                  symmetric ? format("symmetric memory {}", symmetric->id()) : "a plain view");
  });

  const Shard own = shard_of(m, team().size(), team().rank());
  auto* const own_rows = given.y.narrow(0, own.begin, own.count).data_as<std::byte>();
  const RowParallelOperands run = operands(given, own_rows, m, symmetric);
  run_whole(stream, [&] { (this->*algorithm_)(run, stream); });
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
