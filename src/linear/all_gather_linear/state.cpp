// SPDX-License-Identifier: Apache-2.0
#include "linear/all_gather_linear/state.hpp"

#include <memory>
#include <utility>

#include "base/format.hpp"
#include "linear/algorithms.hpp"
#include "linear/local_gemm.hpp"

namespace tandem {

AllGatherLinear::State::State(const Team& team, const LinearSpec& spec, const LinearOptions& options)
    : LinearPlanState(team, LinearKind::all_gather_linear, spec, options, OwnShare::n),
      keep_gathered(options.keep_gathered),
      algorithm(algorithm_named(choice().algorithm, gathering_algorithms, {&State::pipeline, &State::sequence})),
      gather(team, spec.m, static_cast<std::size_t>(spec.k) * size_of(spec.dtype), choice(),
             ShardGather::Meanwhile::nothing, keep_gathered ? ShardGather::Kept::yes : ShardGather::Kept::no,
             operation()),
      products(team, leaving(choice().leave_sms, local_gemm(spec)),
               choice().groups == 0 ? 1 : 1 + gather.groups().size()),
      communication(team, choice().algorithm == tandem::sequence ? 0 : 1) {
  describe_product(
      products.gemm(), gather.communication(),
      products.take_turns()
          ? "in turns on the caller's stream and on one beside it, where they have a workspace of their own"
          : "");
  auto parts = gather.parts();
  for (std::shared_ptr<void>& part : products.parts()) parts.push_back(std::move(part));
  keep_in_graphs(std::move(parts));
}

void AllGatherLinear::State::run(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                 const TensorView& aux, const TensorView& y, StreamRef stream) {
  const std::int64_t m = tokens(y, "y", 0);
  expect(x, "x", spec().dtype, stored(spec().x, own_rows(m), spec().k));
  expect(weight, "weight", spec().dtype, stored(spec().weight, spec().n, spec().k));
  expect_bias(bias);
  expect_auxiliary(aux, m);
  expect(y, "y", spec().dtype, Dims{m, spec().n});
  expect_apart_from_inputs(y, "y", {{"x", x}, {"weight", weight}, {"bias", bias}, {"aux", aux}});
  if (spec().auxiliary == Auxiliary::output) {
    expect_apart_from_inputs(aux, "aux", {{"x", x}, {"weight", weight}, {"bias", bias}});
  }
  expect_alike(stream, [&] { return format("a run of {} tokens", m); });

  begin(stream);
  const Operands operands{x.data(), weight.data(), bias.data(), aux.data_as<std::byte>(), y.data_as<std::byte>(), m};
  whole_or_failed([&] {
    if (owed_slot >= 0) gather.finish(stream, owed_slot);  // its gathered x is no longer read
    if (!capturing()) owed_slot = -1;
    // A captured run grants the slot that it took, or its next replay would wait forever. So slots may be granted
    // early, or twice: from then on each run begins with an exchange that replaces the credits.
    opens = keep_gathered && captured();
    rejoin_if_thrown(communication, stream,
                     [&] { rejoin_if_thrown(products, stream, [&] { (this->*algorithm)(operands, stream); }); });
    if (keep_gathered && !opens) {
      owed_slot = gather.slot();
    } else {
      gather.finish(stream, gather.slot());
    }
    kept_m = keep_gathered ? m : -1;
    end(stream);
  });
}

void AllGatherLinear::State::multiply(const ProductTurns::Turn& turn, const Operands& run, const void* x,
                                      RowRange rows) {
  if (rows.count == 0) return;
  const std::size_t before = static_cast<std::size_t>(rows.begin * spec().n) * size_of(spec().dtype);
  turn.gemm.run(turn.stream, {.a = x,
                              .b = run.weight,
                              .d = run.y + before,
                              .bias = run.bias,
                              .aux = run.aux == nullptr ? nullptr : run.aux + before,
                              .m = rows.count,
                              .weights = turn.weights});
  if (turn.weights == Weights::first) turn.weights = Weights::again;
}

void AllGatherLinear::State::multiply_gathered(const ProductTurns::Turn& turn, const Operands& run,
                                               const ShardGroup& group) {
  if (spec().x == Layout::normal) {
    for (const RowRange rows : gather.rows(group)) multiply(turn, run, gather.row(rows.begin), rows);
    return;
  }
  for (const ShardPart& part : group) {
    const RowRange rows = gather.rows(part);
    multiply(turn, run, gather.row(rows.begin), rows);
  }
}

TensorView AllGatherLinear::State::gathered() const {
  team().check();
  if (!keep_gathered) refuse("gathered() was called on a plan made without LinearOptions::keep_gathered");
  if (kept_m < 0) refuse("gathered() was called before the first run");
  return {gather.row(0), {kept_m, spec().k}, spec().dtype, team().device().id()};
}

}  // namespace tandem
