// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/linear_all_reduce.hpp"

#include <memory>

#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

LinearAllReduce::LinearAllReduce(const Team& team, const LinearSpec& spec, const LinearOptions& options)
    : LinearPlan(std::make_unique<State>(team, spec, options)) {}

void LinearAllReduce::operator()(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream) {
  state<State>().run({.x = x, .weight = weight, .y = y}, stream);
}

void LinearAllReduce::operator()(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                 const TensorView& y, StreamRef stream) {
  state<State>().run({.x = x, .weight = weight, .bias = bias, .y = y}, stream);
}

void LinearAllReduce::operator()(const TensorView& x, const TensorView& weight, const SymmetricTensor& y,
                                 StreamRef stream) {
  state<State>().run({.x = x, .weight = weight}, y, stream);
}

void LinearAllReduce::operator()(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                 const SymmetricTensor& y, StreamRef stream) {
  state<State>().run({.x = x, .weight = weight, .bias = bias}, y, stream);
}

void LinearAllReduce::operator()(const LinearOperands& operands, StreamRef stream) {
  state<State>().run(operands, stream);
}

void LinearAllReduce::operator()(const LinearOperands& operands, const SymmetricTensor& y, StreamRef stream) {
  state<State>().run(operands, y, stream);
}

}  // namespace tandem
