// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/linear_weight_gradient.hpp"

#include <algorithm>
#include <iterator>

#include "tandem/base/error.hpp"
#include "tandem/linear/tuned_product.hpp"

#include "base/format.hpp"
#include "linear/algorithms.hpp"
#include "linear/linear_weight_gradient/state.hpp"
#include "linear/local_gemm.hpp"
#include "team/names.hpp"

namespace tandem {
namespace {

std::size_t gathered_row_bytes(const LinearSpec& spec, GatheredOperand gathered) {
  return static_cast<std::size_t>(gathered == GatheredOperand::x ? spec.k : spec.n) * size_of(spec.dtype);
}

}  // namespace

LinearWeightGradient::State::State(const Team& its_team, const LinearSpec& its_spec, GatheredOperand its_gathered,
                                   const LinearChoice& choice, std::uint32_t operation)
    : team(its_team),
      spec(its_spec),
      gathered(its_gathered),
      algorithm(algorithm_named(choice.algorithm, gathering_algorithms, {&State::pipeline, &State::sequence})),
      gather(team, spec.m, gathered_row_bytes(spec, gathered), choice, ShardGather::Meanwhile::something,
             ShardGather::Kept::no, operation),
      gemm(team, tuned_gemm(team, leaving(choice.leave_sms, local_gradient_gemm(spec)))),
      communication(team) {
  if (choice.algorithm == tandem::pipeline && team.size() > 1 && spec.gradient_dtype != f32) {
    wide.emplace(team, spec, choice.leave_sms);
  }
}

void LinearWeightGradient::State::multiply(StreamRef stream, const Operands& run, const std::byte* gathered_rows,
                                           RowRange rows, float beta) const {
  const bool gathers_x = gathered == GatheredOperand::x;
  const std::int64_t whole_columns = gathers_x ? spec.n : spec.k;
  const std::byte* whole_rows =
      run.whole == nullptr ? nullptr
                           : run.whole + static_cast<std::size_t>(rows.begin * whole_columns) * size_of(spec.dtype);
  run.gemm->run(stream, {.a = gathers_x ? whole_rows : gathered_rows,
                         .b = gathers_x ? gathered_rows : whole_rows,
                         .d = run.dw,
                         .k = rows.count,
                         .beta = beta});
}

LinearWeightGradient::LinearWeightGradient(const Team& team, const LinearSpec& spec, GatheredOperand gathered,
                                           const LinearOptions& options)
    : LinearPlan(team, LinearKind::linear_weight_gradient, spec, options,
                 gathered == GatheredOperand::x ? OwnShare::n : OwnShare::k,
                 gathered == GatheredOperand::x ? ", gathers x" : ", gathers dy") {
  if (spec.bias || spec.activation != Activation::none || spec.x != Layout::normal || spec.weight != Layout::normal) {
    throw Unsupported(
        format("LinearWeightGradient on {}: {} was asked for; it has no bias and no activation, and its layouts "
               "are normal",
               name_own_rank(team), to_string(spec)));
  }
  state_ = std::make_unique<State>(team, spec, gathered, choice(), operation());
  const std::optional<WideSum>& wide = state_->wide;
  describe_product(*state_->gemm, state_->gather.communication(), wide ? wide->describe() : "");
  auto parts = state_->gather.parts();
  parts.push_back(state_->gemm.shared());
  if (wide) std::ranges::copy(wide->parts(), std::back_inserter(parts));
  keep_in_graphs(std::move(parts));
}

LinearWeightGradient::LinearWeightGradient(LinearWeightGradient&&) noexcept = default;
LinearWeightGradient& LinearWeightGradient::operator=(LinearWeightGradient&&) noexcept = default;
LinearWeightGradient::~LinearWeightGradient() = default;

void LinearWeightGradient::start(const TensorView& shard, std::int64_t m, StreamRef stream) {
  team().check();  // a moved-from plan has no state
  State& state = *state_;
  const bool gathers_x = state.gathered == GatheredOperand::x;
  state.forget_dropped_start(stream);
  if (state.started) refuse("start() was called twice; a run uses what the first one gathered");
  if (m < 0 || m > spec().m) refuse(format("start() of {} tokens; allowed: 0 to {}", m, spec().m));
  expect(shard, gathers_x ? "x" : "dy", spec().dtype, Dims{own_rows(m), gathers_x ? spec().k : spec().n});
  expect_alike(stream, [&] { return format("the start of a run of {} tokens", m); });
  begin(stream);
  whole_or_failed([&] {
    rejoin_if_thrown(state.communication, stream,
                     [&] { state.start(shard.data_as<const std::byte>(), m, capture(), stream); });
    end(stream);
  });
}

void LinearWeightGradient::expect_started(const TensorView& shard, std::int64_t m, StreamRef stream) const {
  const State::Started& started = *state_->started;
  const bool same_shard = shard.numel() == 0 || started.shard == shard.data_as<const std::byte>();
  if (!same_shard || started.m != m) {
    refuse(format("a run of {} tokens with its shard at {} came behind a start() of {} with one at {}", m, shard.data(),
                  started.m, static_cast<const void*>(started.shard)));
  }
  if (started.capture != device().stream_capture(stream)) {
    refuse("start() was not captured, but its run is; both must be, or neither of them");
  }
}

void LinearWeightGradient::operator()(const TensorView& dy, const TensorView& x, const TensorView& dw,
                                      StreamRef stream) {
  team().check();  // a moved-from plan has no state
  State& state = *state_;
  const bool gathers_x = state.gathered == GatheredOperand::x;
  const std::int64_t m = gathers_x ? tokens(dy, "dy", 0) : tokens(x, "x", 0);
  expect(dy, "dy", spec().dtype, Dims{gathers_x ? m : own_rows(m), spec().n});
  expect(x, "x", spec().dtype, Dims{gathers_x ? own_rows(m) : m, spec().k});
  expect(dw, "dw", spec().gradient_dtype, Dims{spec().n, spec().k});
  expect_apart_from_inputs(dw, "dw", {{"dy", dy}, {"x", x}});

  const TensorView& shard = gathers_x ? x : dy;
  const TensorView& whole = gathers_x ? dy : x;
  state.forget_dropped_start(stream);
  if (state.started) expect_started(shard, m, stream);
  expect_alike(stream, [&] { return format("a run of {} tokens{}", m, state.started ? ", which was started" : ""); });
  begin(stream);
  const State::Operands run{shard.data_as<std::byte>(), whole.data_as<std::byte>(), &*state.gemm, dw.data(), m};
  whole_or_failed([&] {
    rejoin_if_thrown(state.communication, stream,
                     [&] { (state.*(state.started ? &State::finish_started : state.algorithm))(run, stream); });
    state.gather.finish(stream, state.gather.slot());
    end(stream);
  });
}

}  // namespace tandem
