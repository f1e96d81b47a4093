// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "tandem/base/export.hpp"
#include "tandem/collective/plan.hpp"
#include "tandem/linear/cost_model.hpp"
#include "tandem/linear/linear_spec.hpp"

namespace tandem {

class LinearPlanState;

/// Base of the linear layers' plans: a spec, and the cost model's choice for it. The tensors of a run are on the team's
/// device, aligned to at least one element; their memory must stay valid until the stream has passed the run, after
/// which it may be overwritten. A plan may be destroyed once a run is queued, as a collective's may.
class TANDEM_API LinearPlan : public Plan {
 public:
  [[nodiscard]] const LinearSpec& spec() const;
  [[nodiscard]] const LinearChoice& choice() const;

 protected:
  explicit LinearPlan(std::unique_ptr<LinearPlanState> state) noexcept;
  LinearPlan(LinearPlan&&) noexcept = default;
  LinearPlan& operator=(LinearPlan&&) noexcept = default;
  ~LinearPlan() = default;
};

}  // namespace tandem
