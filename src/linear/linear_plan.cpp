// SPDX-License-Identifier: Apache-2.0
#include "tandem/linear/linear_plan.hpp"

#include <utility>

#include "linear/linear_plan_state.hpp"

namespace tandem {

LinearPlan::LinearPlan(std::unique_ptr<LinearPlanState> state) noexcept : Plan(std::move(state)) {}

const LinearSpec& LinearPlan::spec() const { return state<LinearPlanState>().spec(); }
const LinearChoice& LinearPlan::choice() const { return state<LinearPlanState>().choice(); }

}  // namespace tandem
