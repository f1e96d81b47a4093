// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/linear_all_reduce.hpp"

#include <memory>

#include "linear/linear_all_reduce/state.hpp"

namespace tandem {

LinearAllReduce::LinearAllReduce(const Team& team, const LinearSpec& spec, const LinearOptions& options)
    : LinearPlan(std::make_unique<State>(team, spec, options)) {}

void LinearAllReduce::operator()(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream) {
  state<State>().run(x, weight, TensorView(), y, nullptr, stream);
}

void LinearAllReduce::operator()(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                 const TensorView& y, StreamRef stream) {
  state<State>().run(x, weight, bias, y, nullptr, stream);
}

void LinearAllReduce::operator()(const TensorView& x, const TensorView& weight, const SymmetricTensor& y,
                                 StreamRef stream) {
  state<State>().run(x, weight, TensorView(), y, stream);
}

void LinearAllReduce::operator()(const TensorView& x, const TensorView& weight, const TensorView& bias,
                                 const SymmetricTensor& y, StreamRef stream) {
  state<State>().run(x, weight, bias, y, stream);
}

}  // namespace tandem
