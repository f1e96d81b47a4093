// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/all_gather_linear.hpp"

#include <algorithm>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "linear/algorithms.hpp"
#include "linear/all_gather_linear/state.hpp"
#include "linear/local_gemm.hpp"
#include "team/names.hpp"

namespace tandem {

AllGatherLinear::State::State(const Team& its_team, const LinearSpec& its_spec, const LinearOptions& options,
                              LinearChoice its_choice, std::uint32_t operation)
    : team(its_team),
      spec(its_spec),
      keep_gathered(options.keep_gathered),
      choice(std::move(its_choice)),
      algorithm(algorithm_named(choice.algorithm, gathering_algorithms, {&State::pipeline, &State::sequence})),
      gather(team, spec.m, static_cast<std::size_t>(spec.k) * size_of(spec.dtype), choice,
             ShardGather::Meanwhile::nothing, keep_gathered ? ShardGather::Kept::yes : ShardGather::Kept::no,
             operation),
      products(team, leaving(choice.leave_sms, local_gemm(spec)), choice.groups == 0 ? 1 : 1 + gather.groups().size()),
      communication(team, choice.algorithm == tandem::sequence ? 0 : 1) {}

void AllGatherLinear::State::multiply(const ProductTurns::Turn& turn, const Operands& run, const void* x,
                                      RowRange rows) {
  if (rows.count == 0) return;
  const std::size_t before = static_cast<std::size_t>(rows.begin * spec.n) * size_of(spec.dtype);
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
  if (spec.x == Layout::normal) {
    for (const RowRange rows : gather.rows(group)) multiply(turn, run, gather.row(rows.begin), rows);
    return;
  }
  for (const ShardPart& part : group) {
    const RowRange rows = gather.rows(part);
    multiply(turn, run, gather.row(rows.begin), rows);
  }
}

AllGatherLinear::AllGatherLinear(const Team& team, const LinearSpec& spec, const LinearOptions& options)
    : LinearPlan(team, LinearKind::all_gather_linear, spec, options, OwnShare::n) {
  if (options.keep_gathered && spec.x == Layout::transposed) {
    throw Unsupported(
        format("AllGatherLinear on {}: the gathered x of a transposed layout has no one shape; "
               "keep_gathered goes with Layout::normal",
               name_own_rank(team)));
  }
  state_ = std::make_unique<State>(team, spec, options, choice(), operation());
  describe_product(
      state_->products.gemm(), state_->gather.communication(),
      state_->products.take_turns()
          ? "in turns on the caller's stream and on one beside it, where they have a workspace of their own"
          : "");
  auto parts = state_->gather.parts();
  for (std::shared_ptr<void>& part : state_->products.parts()) parts.push_back(std::move(part));
  keep_in_graphs(std::move(parts));
}

AllGatherLinear::AllGatherLinear(AllGatherLinear&&) noexcept = default;
AllGatherLinear& AllGatherLinear::operator=(AllGatherLinear&&) noexcept = default;
AllGatherLinear::~AllGatherLinear() = default;

void AllGatherLinear::operator()(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream) {
  (*this)(x, weight, TensorView(), y, stream);
}

void AllGatherLinear::operator()(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                 const TensorView& y, StreamRef stream) {
  (*this)(x, weight, bias, TensorView(), y, stream);
}

void AllGatherLinear::operator()(const TensorView& x, const TensorView& weight, const TensorView& bias,
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
  State& state = *state_;
  const State::Operands run{x.data(), weight.data(), bias.data(), aux.data_as<std::byte>(), y.data_as<std::byte>(), m};
  whole_or_failed([&] {
    if (state.owed_slot >= 0) state.gather.finish(stream, state.owed_slot);  // its gathered x is no longer read
    if (!capturing()) state.owed_slot = -1;
    // A captured run grants the slot that it took, or its next replay would wait forever. So slots may be granted
    // early, or twice: from then on each run begins with an exchange that replaces the credits.
    state.opens = state.keep_gathered && captured();
    rejoin_if_thrown(state.communication, stream,
                     [&] { rejoin_if_thrown(state.products, stream, [&] { (state.*state.algorithm)(run, stream); }); });
    if (state.keep_gathered && !state.opens) {
      state.owed_slot = state.gather.slot();
    } else {
      state.gather.finish(stream, state.gather.slot());
    }
    state.kept_m = state.keep_gathered ? m : -1;
    end(stream);
  });
}

TensorView AllGatherLinear::gathered() const {
  team().check();  // a moved-from plan has no state
  const State& state = *state_;
  if (!state.keep_gathered) refuse("gathered() was called on a plan made without LinearOptions::keep_gathered");
  if (state.kept_m < 0) refuse("gathered() was called before the first run");
  return {state.gather.row(0), {state.kept_m, spec().k}, spec().dtype, team().device().id()};
}

}  // namespace tandem
