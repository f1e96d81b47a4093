// SPDX-License-Identifier: Apache-2.0
#include "transformer_layer/linear.hpp"

#include "tandem/device/trace_range.hpp"
#include "tandem/linear/tuned_product.hpp"

namespace tandem::transformer_layer {
namespace {

std::int64_t own_share(const Team& team, std::int64_t whole) { return shard_of(whole, team.size(), team.rank()).count; }

LinearOptions keeping(LinearOptions options, bool gathered) {
  options.keep_gathered = gathered;
  return options;
}

/// dW = dyᵀ·x over all tokens, on one rank.
std::unique_ptr<Gemm> local_weight_gradient(const Team& team, std::int64_t tokens, std::int64_t inputs,
                                            std::int64_t outputs, DType dtype) {
  return tuned_gemm(team,
                    {.m = outputs, .n = inputs, .k = tokens, .transpose_a = true, .dtype = dtype, .out_dtype = dtype});
}

std::string in_short(const LinearPlan& plan) {
  const LinearChoice& choice = plan.choice();
  return choice.groups > 0 ? choice.algorithm + "/" + std::to_string(choice.groups) : choice.algorithm;
}

}  // namespace

void ParallelLinear::backward(const TensorView& dy, const TensorView& weight, const TensorView& x, const TensorView& dx,
                              const TensorView& dw, StreamRef stream) {
  input_gradient(dy, weight, dx, stream);
  weight_gradient(dy, x, dw, stream);
}

// Column-parallel. Forward: gather, multiply; backward: multiply, reduce and scatter.

ColumnParallel::ColumnParallel(const Team& team, const LinearSizes& sizes, DType dtype, const LinearOptions& options)
    : forward_(team, {.m = sizes.tokens, .n = own_share(team, sizes.outputs), .k = sizes.inputs, .dtype = dtype},
               options),
      input_gradient_(team,
                      {.m = sizes.tokens,
                       .n = sizes.inputs,
                       .k = own_share(team, sizes.outputs),
                       .dtype = dtype,
                       .weight_layout = Layout::transposed},
                      keeping(options, false)),
      overlaps_(options.algorithm != "sequence") {
  const std::int64_t outputs = own_share(team, sizes.outputs);
  if (options.keep_gathered) {
    local_weight_gradient_ = local_weight_gradient(team, sizes.tokens, sizes.inputs, outputs, dtype);
  } else {
    weight_gradient_.emplace(
        team, LinearSpec{.m = sizes.tokens, .n = outputs, .k = sizes.inputs, .dtype = dtype, .gradient_dtype = dtype},
        GatheredOperand::x, options);
  }
}

void ColumnParallel::forward(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream) {
  forward_(x, weight, y, stream);
}

void ColumnParallel::input_gradient(const TensorView& dy, const TensorView& weight, const TensorView& dx,
                                    StreamRef stream) {
  input_gradient_(dy, weight, dx, stream);
}

void ColumnParallel::weight_gradient(const TensorView& dy, const TensorView& x, const TensorView& dw,
                                     StreamRef stream) {
  if (weight_gradient_) return (*weight_gradient_)(dy, x, dw, stream);
  const TraceRange range(forward_.team().device(), stream, "weight gradient", TraceKind::compute);
  local_weight_gradient_->run(stream, {.a = dy.data(), .b = forward_.gathered().data(), .d = dw.data()});
}

void ColumnParallel::backward(const TensorView& dy, const TensorView& weight, const TensorView& x, const TensorView& dx,
                              const TensorView& dw, StreamRef stream) {
  if (weight_gradient_ && overlaps_) weight_gradient_->start(x, dy.size(0), stream);
  ParallelLinear::backward(dy, weight, x, dx, dw, stream);
}

ParallelLinear::Algorithms ColumnParallel::algorithms() const {
  return {in_short(forward_), in_short(input_gradient_), weight_gradient_ ? in_short(*weight_gradient_) : "local"};
}

// Row-parallel. Forward: multiply, reduce and scatter; backward: gather, multiply.

RowParallel::RowParallel(const Team& team, const LinearSizes& sizes, DType dtype, const LinearOptions& options)
    : forward_(team, {.m = sizes.tokens, .n = sizes.outputs, .k = own_share(team, sizes.inputs), .dtype = dtype},
               keeping(options, false)),
      input_gradient_(team,
                      {.m = sizes.tokens,
                       .n = own_share(team, sizes.inputs),
                       .k = sizes.outputs,
                       .dtype = dtype,
                       .weight_layout = Layout::transposed},
                      keeping(options, true)),
      weight_gradient_(local_weight_gradient(team, sizes.tokens, own_share(team, sizes.inputs), sizes.outputs, dtype)) {
}

void RowParallel::forward(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream) {
  forward_(x, weight, y, stream);
}

void RowParallel::input_gradient(const TensorView& dy, const TensorView& weight, const TensorView& dx,
                                 StreamRef stream) {
  input_gradient_(dy, weight, dx, stream);
}

void RowParallel::weight_gradient(const TensorView& /*dy*/, const TensorView& x, const TensorView& dw,
                                  StreamRef stream) {
  const TraceRange range(input_gradient_.team().device(), stream, "weight gradient", TraceKind::compute);
  weight_gradient_->run(stream, {.a = input_gradient_.gathered().data(), .b = x.data(), .d = dw.data()});
}

ParallelLinear::Algorithms RowParallel::algorithms() const {
  return {in_short(forward_), in_short(input_gradient_), "local"};
}

// Three local GEMMs of one rank.

LocalLinear::LocalLinear(const Team& team, const LinearSizes& sizes, DType dtype)
    : forward_(tuned_gemm(team, {.m = sizes.tokens,
                                 .n = sizes.outputs,
                                 .k = sizes.inputs,
                                 .transpose_b = true,
                                 .dtype = dtype,
                                 .out_dtype = dtype})),
      input_gradient_(tuned_gemm(
          team, {.m = sizes.tokens, .n = sizes.inputs, .k = sizes.outputs, .dtype = dtype, .out_dtype = dtype})),
      weight_gradient_(local_weight_gradient(team, sizes.tokens, sizes.inputs, sizes.outputs, dtype)) {}

void LocalLinear::forward(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream) {
  forward_->run(stream, {.a = x.data(), .b = weight.data(), .d = y.data()});
}

void LocalLinear::input_gradient(const TensorView& dy, const TensorView& weight, const TensorView& dx,
                                 StreamRef stream) {
  input_gradient_->run(stream, {.a = dy.data(), .b = weight.data(), .d = dx.data()});
}

void LocalLinear::weight_gradient(const TensorView& dy, const TensorView& x, const TensorView& dw, StreamRef stream) {
  weight_gradient_->run(stream, {.a = dy.data(), .b = x.data(), .d = dw.data()});
}

ParallelLinear::Algorithms LocalLinear::algorithms() const { return {"local", "local", "local"}; }

}  // namespace tandem::transformer_layer
