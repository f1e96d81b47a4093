// SPDX-License-Identifier: Apache-2.0
#include "linear/all_gather_linear/state.hpp"

#include <utility>

#include "base/format.hpp"
#include "linear/algorithms.hpp"
#include "linear/local_gemm.hpp"

namespace tandem {

AllGatherLinear::State::State(const Team& team, const LinearSpec& spec, const LinearOptions& options)
    : LinearPlanState(team, LinearKind::all_gather_linear, spec, options, OwnShare::n),
      keep_gathered_(options.keep_gathered),
      algorithm_(algorithm_named(choice().algorithm, gathering_algorithms, {&State::pipeline, &State::sequence})),
      gather_(team, spec.m, static_cast<std::size_t>(spec.k) * size_of(spec.dtype), choice(),
              ShardGather::Meanwhile::nothing, keep_gathered_ ? ShardGather::Kept::yes : ShardGather::Kept::no,
              operation()),
      scales_(team, spec, choice(), operation()),
      products_(team, leaving(choice().leave_sms, local_gemm(spec)),
                choice().groups == 0 ? 1 : 1 + gather_.groups().size()),
      communication_(team, choice().algorithm == tandem::sequence ? 0 : 1) {
  constexpr const char* in_turns =
      "in turns on the caller's stream and on one beside it, where they have a workspace of their own; in a captured "
      "run all on the caller's stream";
  describe_product(products_.gemm(), gather_.communication() + scales_.communication(),
                   products_.take_turns() ? in_turns : "");
  Owners owners = gather_.owners();
  append(owners, scales_.owners());
  append(owners, products_.owners());
  keep_in_graphs(std::move(owners));
}

void AllGatherLinear::State::run(const LinearOperands& given, StreamRef stream) {
  const auto& [x, weight, bias, aux, x_scale, weight_scale, y] = given;
  const std::int64_t m = tokens(y, "y", 0);
  expect_factors(given, own_rows(m));
  expect_bias(bias);
  expect_auxiliary(aux, m);
  expect(y, "y", spec().dtype_of_y(), Dims{m, spec().n});
  expect_apart_from_inputs(y, "y", given);
  expect_apart(y, "y", aux, "aux");
  if (spec().auxiliary == Auxiliary::output) expect_apart_from_inputs(aux, "aux", given);
  expect_alike(stream, [&] { return format("a run of {} tokens", m); });

  begin(stream);
  const Operands operands{x.data(),
                          weight.data(),
                          bias.data(),
                          x_scale.data_as<const float>(),
                          weight_scale.data_as<const float>(),
                          aux.data_as<std::byte>(),
                          y.data_as<std::byte>(),
                          m};
  whole_or_failed([&] {
    if (owed_slot_ >= 0) gather_.finish(stream, owed_slot_);  // its gathered x is no longer read
    if (!capturing()) owed_slot_ = -1;
    // A captured run grants the slot that it took, or its next replay would wait forever. So slots may be granted
    // early, or twice: from then on each run begins with an exchange that replaces the credits.
    opens_ = keep_gathered_ && captured();
    rejoin_if_thrown(communication_, stream, [&] {
      rejoin_if_thrown(products_, stream,
                       [&] { rejoin_if_thrown(scales_, stream, [&] { (this->*algorithm_)(operands, stream); }); });
    });
    scales_.finish(stream);
    if (keep_gathered_ && !opens_) {
      owed_slot_ = gather_.slot();
    } else {
      gather_.finish(stream, gather_.slot());
    }
    kept_m_ = keep_gathered_ ? m : -1;
    end(stream);
  });
}

void AllGatherLinear::State::multiply(const ProductTurns::Turn& turn, const Operands& operands, const void* x,
                                      const float* scale, Shard rows) {
  if (rows.count == 0) return;
  const std::size_t before = static_cast<std::size_t>(rows.begin * spec().n) * size_of(spec().dtype_of_y());
  turn.gemm.run(turn.stream, {.a = x,
                              .b = operands.weight,
                              .d = operands.y + before,
                              .bias = operands.bias,
                              .aux = operands.aux == nullptr ? nullptr : operands.aux + before,
                              .a_scale = scale,
                              .b_scale = operands.weight_scale,
                              .m = rows.count,
                              .weights = turn.weights});
  if (turn.weights == Weights::first) turn.weights = Weights::again;
}

void AllGatherLinear::State::multiply_gathered(const ProductTurns::Turn& turn, const Operands& operands,
                                               const ShardGroup& group) {
  if (spec().x_layout == Layout::normal) {
    for (const Shard rows : gather_.rows(group)) {
      multiply(turn, operands, gather_.row(rows.begin), scales_.of(rows.begin, operands.x_scale), rows);
    }
    return;
  }
  for (const ShardPart& part : group) {
    const Shard rows = gather_.rows(part);
    multiply(turn, operands, gather_.row(rows.begin), scales_.of(rows.begin, operands.x_scale), rows);
  }
}

TensorView AllGatherLinear::State::gathered() const {
  team().check();
  if (!keep_gathered_) refuse("gathered() was called on a plan made without LinearOptions::keep_gathered");
  if (kept_m_ < 0) refuse("gathered() was called before the first run");
  return {gather_.row(0), {kept_m_, spec().k}, spec().dtype, team().device().id()};
}

}  // namespace tandem
