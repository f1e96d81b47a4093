// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/linear_weight_gradient.hpp"

#include <memory>

#include "linear/linear_weight_gradient/state.hpp"

namespace tandem {

LinearWeightGradient::LinearWeightGradient(const Team& team, const LinearSpec& spec, GatheredOperand gathered,
                                           const LinearOptions& options)
    : LinearPlan(std::make_unique<State>(team, spec, gathered, options)) {}

void LinearWeightGradient::start(const TensorView& shard, std::int64_t m, StreamRef stream) {
  state<State>().start(shard, m, stream);
}

void LinearWeightGradient::operator()(const TensorView& dy, const TensorView& x, const TensorView& dw,
                                      StreamRef stream) {
  state<State>().run(dy, x, dw, stream);
}

}  // namespace tandem
