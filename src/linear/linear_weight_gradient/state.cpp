// SPDX-License-Identifier: Apache-2.0
#include "linear/linear_weight_gradient/state.hpp"

#include <utility>

#include "tandem/linear/tuned_product.hpp"

#include "base/format.hpp"
#include "linear/algorithms.hpp"
#include "linear/local_gemm.hpp"

namespace tandem {
namespace {

std::size_t gathered_row_bytes(const LinearSpec& spec, GatheredOperand gathered) {
  return static_cast<std::size_t>(gathered == GatheredOperand::x ? spec.k : spec.n) * size_of(spec.dtype);
}

}  // namespace

LinearWeightGradient::State::State(const Team& team, const LinearSpec& spec, GatheredOperand gathered,
                                   const LinearOptions& options)
    : LinearPlanState(team, LinearKind::linear_weight_gradient, spec, options,
                      gathered == GatheredOperand::x ? OwnShare::n : OwnShare::k,
                      gathered == GatheredOperand::x ? ", gathers x" : ", gathers dy"),
      gathered_(gathered),
      algorithm_(algorithm_named(choice().algorithm, gathering_algorithms, {&State::pipeline, &State::sequence})),
      gather_(team, spec.m, gathered_row_bytes(spec, gathered_), choice(), ShardGather::Meanwhile::something,
              ShardGather::Kept::no, operation()),
      gemm_(team, tuned_gemm(team, leaving(choice().leave_sms, local_gradient_gemm(spec)))),
      communication_(team) {
  if (choice().algorithm == tandem::pipeline && team.size() > 1 && spec.gradient_dtype != f32) {
    wide_.emplace(team, spec, choice().leave_sms);
  }
  describe_product(*gemm_, gather_.communication(), wide_ ? wide_->describe() : "");
  Owners owners = gather_.owners();
  owners.push_back(gemm_.shared());
  if (wide_) append(owners, wide_->owners());
  keep_in_graphs(std::move(owners));
}

void LinearWeightGradient::State::start(const TensorView& shard, std::int64_t m, StreamRef stream) {
  team().check();  // a run that a failure cut off may have left `started` behind, which is not the caller's mistake
  const bool gathers_x = gathered_ == GatheredOperand::x;
  forget_dropped_start(stream);
  if (started_) refuse("start() was called twice; a run uses what the first one gathered");
  if (m < 0 || m > spec().m) refuse(format("start() of {} tokens; allowed: 0 to {}", m, spec().m));
  expect(shard, gathers_x ? "x" : "dy", spec().dtype, Dims{own_rows(m), gathers_x ? spec().k : spec().n});
  expect_alike(stream, [&] { return format("the start of a run of {} tokens", m); });
  begin(stream);
  whole_or_failed([&] {
    rejoin_if_thrown(communication_, stream, [&] { gather_early(shard.data_as<const std::byte>(), m, stream); });
    end(stream);
  });
}

void LinearWeightGradient::State::expect_started(const TensorView& shard, std::int64_t m, StreamRef stream) const {
  const bool same_shard = shard.numel() == 0 || started_->shard == shard.data_as<const std::byte>();
  if (!same_shard || started_->m != m) {
    refuse(format("a run of {} tokens with its shard at {} came behind a start() of {} with one at {}", m, shard.data(),
                  started_->m, static_cast<const void*>(started_->shard)));
  }
  if (started_->capture != capture_of(stream)) {
    refuse("start() was not captured, but its run is; both must be, or neither of them");
  }
}

void LinearWeightGradient::State::run(const TensorView& dy, const TensorView& x, const TensorView& dw,
                                      StreamRef stream) {
  team().check();  // as in start()
  const bool gathers_x = gathered_ == GatheredOperand::x;
  const std::int64_t m = gathers_x ? tokens(dy, "dy", 0) : tokens(x, "x", 0);
  expect(dy, "dy", spec().dtype, Dims{gathers_x ? m : own_rows(m), spec().n});
  expect(x, "x", spec().dtype, Dims{gathers_x ? own_rows(m) : m, spec().k});
  expect(dw, "dw", spec().gradient_dtype, Dims{spec().n, spec().k});
  expect_apart_from_inputs(dw, "dw", {{"dy", dy}, {"x", x}});

  const TensorView& shard = gathers_x ? x : dy;
  const TensorView& whole = gathers_x ? dy : x;
  forget_dropped_start(stream);
  if (started_) expect_started(shard, m, stream);
  expect_alike(stream, [&] { return format("a run of {} tokens{}", m, started_ ? ", which was started" : ""); });
  begin(stream);
  const Operands operands{shard.data_as<std::byte>(), whole.data_as<std::byte>(), &*gemm_, dw.data(), m};
  whole_or_failed([&] {
    rejoin_if_thrown(communication_, stream,
                     [&] { (this->*(started_ ? &State::finish_started : algorithm_))(operands, stream); });
    gather_.finish(stream, gather_.slot());
    end(stream);
  });
}

void LinearWeightGradient::State::multiply(StreamRef stream, const Operands& operands, const std::byte* gathered_rows,
                                           Shard rows, float beta) const {
  const bool gathers_x = gathered_ == GatheredOperand::x;
  const std::int64_t whole_columns = gathers_x ? spec().n : spec().k;
  const std::byte* whole_rows =
      operands.whole == nullptr
          ? nullptr
          : operands.whole + static_cast<std::size_t>(rows.begin * whole_columns) * size_of(spec().dtype);
  operands.gemm->run(stream, {.a = gathers_x ? whole_rows : gathered_rows,
                              .b = gathers_x ? gathered_rows : whole_rows,
                              .d = operands.dw,
                              .k = rows.count,
                              .beta = beta});
}

}  // namespace tandem
