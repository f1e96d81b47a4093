// SPDX-License-Identifier: Apache-2.0
#include "tandem/collective/plan.hpp"

#include <utility>

#include "tandem/base/error.hpp"

#include "collective/plan_state.hpp"

namespace tandem {

Plan::Plan(std::unique_ptr<PlanState> state) noexcept : state_(std::move(state)) {}
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

const Team& Plan::team() const noexcept {
  static const Team none;
  return state_ ? state_->team() : none;
}

const std::string& Plan::describe() const noexcept {
  static const std::string none;
  return state_ ? state_->describe() : none;
}

PlanState& Plan::state_or_throw() const {
  if (!state_) throw InvalidArgument("a plan was used that was moved from; use the one it was moved to");
  return *state_;
}

}  // namespace tandem
