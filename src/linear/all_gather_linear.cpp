// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/all_gather_linear.hpp"

#include <memory>

#include "linear/all_gather_linear/state.hpp"

namespace tandem {

AllGatherLinear::AllGatherLinear(const Team& team, const LinearSpec& spec, const LinearOptions& options)
    : LinearPlan(std::make_unique<State>(team, spec, options)) {}

void AllGatherLinear::operator()(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream) {
  state<State>().run({.x = x, .weight = weight, .y = y}, stream);
}

void AllGatherLinear::operator()(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                 const TensorView& y, StreamRef stream) {
  state<State>().run({.x = x, .weight = weight, .bias = bias, .y = y}, stream);
}

void AllGatherLinear::operator()(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                 const TensorView& aux, const TensorView& y, StreamRef stream) {
  state<State>().run({.x = x, .weight = weight, .bias = bias, .aux = aux, .y = y}, stream);
}

void AllGatherLinear::operator()(const LinearOperands& operands, StreamRef stream) {
  state<State>().run(operands, stream);
}

TensorView AllGatherLinear::gathered() const { return state<State>().gathered(); }

}  // namespace tandem
