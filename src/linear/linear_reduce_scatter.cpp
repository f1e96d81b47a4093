// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/linear_reduce_scatter.hpp"

#include <memory>

#include "linear/linear_reduce_scatter/state.hpp"

namespace tandem {

LinearReduceScatter::LinearReduceScatter(const Team& team, const LinearSpec& spec, const LinearOptions& options)
    : LinearPlan(std::make_unique<State>(team, spec, options)) {}

void LinearReduceScatter::operator()(const TensorView& x, const TensorView& weight, const TensorView& y,
                                     StreamRef stream) {
  state<State>().run({.x = x, .weight = weight, .y = y}, stream);
}

void LinearReduceScatter::operator()(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                     const TensorView& y, StreamRef stream) {
  state<State>().run({.x = x, .weight = weight, .bias = bias, .y = y}, stream);
}

void LinearReduceScatter::operator()(const LinearOperands& operands, StreamRef stream) {
  state<State>().run(operands, stream);
}

}  // namespace tandem
