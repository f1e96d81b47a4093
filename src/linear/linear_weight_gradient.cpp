// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/linear_weight_gradient.hpp"

#include <memory>
#include <string>

#include "tandem/base/error.hpp"

#include "base/enum_check.hpp"
#include "base/format.hpp"
#include "linear/linear_weight_gradient/state.hpp"
#include "team/names.hpp"

namespace tandem {
namespace {

GatheredOperand known(const Team& team, GatheredOperand gathered) {
  const std::string why = why_unknown("the gathered operand", gathered, GatheredOperand::dy);
  if (why.empty()) return gathered;
  throw InvalidArgument(format("{} on {}: {}", name(LinearKind::linear_weight_gradient), name_own_rank(team), why));
}

}  // namespace

LinearWeightGradient::LinearWeightGradient(const Team& team, const LinearSpec& spec, GatheredOperand gathered,
                                           const LinearOptions& options)
    : LinearPlan(std::make_unique<State>(team, spec, known(team, gathered), options)) {}

void LinearWeightGradient::start(const TensorView& shard, std::int64_t m, StreamRef stream) {
  state<State>().start(shard, m, stream);
}

void LinearWeightGradient::operator()(const TensorView& dy, const TensorView& x, const TensorView& dw,
                                      StreamRef stream) {
  state<State>().run(dy, x, dw, stream);
}

}  // namespace tandem
