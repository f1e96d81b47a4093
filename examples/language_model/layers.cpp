// SPDX-License-Identifier: Apache-2.0
#include "language_model/layers.hpp"

#include <cmath>
#include <cstddef>

#include "tandem/device/trace_range.hpp"

namespace tandem::language_model {
namespace {

double deviation(const LayerSizes& sizes) { return 1 / std::sqrt(static_cast<double>(sizes.inputs)); }

std::int64_t own_share(const Parameters& parameters, std::int64_t whole) {
  return shard_of(whole, parameters.team().size(), parameters.team().rank()).count;
}

/// The gradient of a bias: the sum over dy's rows.
void sum_rows(Device& device, const TensorView& dy, const Parameter& bias, StreamRef stream) {
  device.column_sum(stream, {.out = bias.gradient.data_as<float>(),
                             .x = dy.data(),
                             .rows = dy.size(0),
                             .columns = dy.size(1),
                             .dtype = dy.dtype()});
}

/// A plan's name and chosen algorithm: the first two lines of its description.
std::string in_short(const std::string& role, const Plan& plan) {
  const std::string& text = plan.describe();
  const std::size_t first = text.find('\n');
  const std::size_t second = text.find('\n', first + 1);
  return role + ": " + text.substr(0, first) + "\n  " + text.substr(first + 1, second - first - 1);
}

}  // namespace

// Linear: three local GEMMs.

Linear::Linear(Parameters& parameters, const std::string& name, const LayerSizes& sizes)
    : device_(parameters.team().device()),
      weight_(parameters.add(name + ".weight", {sizes.outputs, sizes.inputs}, Split::none, deviation(sizes))) {
  const std::int64_t rows = own_share(parameters, sizes.tokens);
  const DType dtype = parameters.dtype();
  forward_ = device_.gemm(
      {.m = rows, .n = sizes.outputs, .k = sizes.inputs, .transpose_b = true, .dtype = dtype, .out_dtype = dtype});
  input_gradient_ =
      device_.gemm({.m = rows, .n = sizes.inputs, .k = sizes.outputs, .dtype = dtype, .out_dtype = dtype});
  weight_gradient_ = device_.gemm(
      {.m = sizes.outputs, .n = sizes.inputs, .k = rows, .transpose_a = true, .dtype = dtype, .out_dtype = f32});
}

void Linear::forward(const TensorView& x, const TensorView& y, StreamRef stream) {
  const TraceRange range(device_, stream, "linear", TraceKind::compute);
  forward_->run(stream, {.a = x.data(), .b = weight_.value.data(), .d = y.data(), .m = x.size(0)});
}

void Linear::backward(const TensorView& x, const TensorView& dy, const TensorView& dx, StreamRef stream) {
  const TraceRange range(device_, stream, "linear, backward", TraceKind::compute);
  input_gradient_->run(stream, {.a = dy.data(), .b = weight_.value.data(), .d = dx.data(), .m = dy.size(0)});
  weight_gradient_->run(stream, {.a = dy.data(), .b = x.data(), .d = weight_.gradient.data(), .k = dy.size(0)});
}

// Column-parallel. Forward: gather, multiply; backward: multiply, reduce and scatter.

ColumnParallel::ColumnParallel(Parameters& parameters, const std::string& name, const LayerSizes& sizes,
                               Activation activation)
    : device_(parameters.team().device()),
      weight_(parameters.add(name + ".weight", {sizes.outputs, sizes.inputs}, Split::rows, deviation(sizes))),
      bias_(parameters.add(name + ".bias", {sizes.outputs}, Split::rows, 0)),
      own_outputs_(own_share(parameters, sizes.outputs)),
      forward_(parameters.team(), {.m = sizes.tokens,
                                   .n = own_outputs_,
                                   .k = sizes.inputs,
                                   .dtype = parameters.dtype(),
                                   .bias = true,
                                   .activation = activation,
                                   .auxiliary = Auxiliary::output}),
      input_gradient_(parameters.team(), {.m = sizes.tokens,
                                          .n = sizes.inputs,
                                          .k = own_outputs_,
                                          .dtype = parameters.dtype(),
                                          .weight_layout = Layout::transposed}),
      weight_gradient_(parameters.team(),
                       {.m = sizes.tokens, .n = own_outputs_, .k = sizes.inputs, .dtype = parameters.dtype()},
                       GatheredOperand::x) {}

void ColumnParallel::forward(const TensorView& x, const TensorView& before, const TensorView& y, StreamRef stream) {
  forward_(x, weight_.value, bias_.value, before, y, stream);
}

void ColumnParallel::backward(const TensorView& x, const TensorView& dbefore, const TensorView& dx, StreamRef stream) {
  weight_gradient_.start(x, dbefore.size(0), stream);  // overlaps the gradient of x
  input_gradient_(dbefore, weight_.value, dx, stream);
  weight_gradient_(dbefore, x, weight_.gradient, stream);
  sum_rows(device_, dbefore, bias_, stream);
}

std::string ColumnParallel::describe() const {
  return in_short("forward", forward_) + "\n" + in_short("gradient of x", input_gradient_) + "\n" +
         in_short("gradient of W", weight_gradient_);
}

// Row-parallel. Forward: multiply, reduce and scatter; backward: gather, multiply.

RowParallel::RowParallel(Parameters& parameters, const std::string& name, const LayerSizes& sizes,
                         Activation activation)
    : device_(parameters.team().device()),
      weight_(parameters.add(name + ".weight", {sizes.outputs, sizes.inputs}, Split::columns, deviation(sizes))),
      bias_(parameters.add(name + ".bias", {sizes.outputs}, Split::none, 0)),
      own_inputs_(own_share(parameters, sizes.inputs)),
      forward_(parameters.team(), {.m = sizes.tokens,
                                   .n = sizes.outputs,
                                   .k = own_inputs_,
                                   .dtype = parameters.dtype(),
                                   .bias = true,
                                   .beta = 1}),
      input_gradient_(parameters.team(),
                      {.m = sizes.tokens,
                       .n = own_inputs_,
                       .k = sizes.outputs,
                       .dtype = parameters.dtype(),
                       .weight_layout = Layout::transposed,
                       .activation = activation,
                       .auxiliary = Auxiliary::gradient},
                      {.keep_gathered = true}),
      weight_gradient_(device_.gemm({.m = sizes.outputs,
                                     .n = own_inputs_,
                                     .k = sizes.tokens,
                                     .transpose_a = true,
                                     .dtype = parameters.dtype(),
                                     .out_dtype = f32})) {}

void RowParallel::forward(const TensorView& x, const TensorView& y, StreamRef stream) {
  forward_(x, weight_.value, bias_.value, y, stream);
}

void RowParallel::backward(const TensorView& x, const TensorView& before, const TensorView& dy,
                           const TensorView& dbefore, StreamRef stream) {
  input_gradient_(dy, weight_.value, TensorView(), before, dbefore, stream);
  const TraceRange range(device_, stream, "weight gradient", TraceKind::compute);
  weight_gradient_->run(
      stream, {.a = input_gradient_.gathered().data(), .b = x.data(), .d = weight_.gradient.data(), .k = x.size(0)});
  sum_rows(device_, dy, bias_, stream);
}

std::string RowParallel::describe() const {
  return in_short("forward", forward_) + "\n" + in_short("gradient of x", input_gradient_);
}

}  // namespace tandem::language_model
