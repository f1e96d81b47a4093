// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tandem/base/export.hpp"
#include "tandem/base/log.hpp"
#include "tandem/collective/plan_cache.hpp"
#include "tandem/device/device.hpp"
#include "tandem/linear/cost_model.hpp"

namespace tandem {

/// Where a plan cache has what is best for a linear operation. Bias, activation, its auxiliary, alpha and beta have no
/// part in it, and plans that differ in these alone share a choice, but where they decide how a sum is made: one over
/// ranks that is added to y, one of two ranks that is activated, and a gradient of 16 bits that is added to dW have
/// keys of their own. `spec` is as `choose` takes it, of the team's first rank.
[[nodiscard]] TANDEM_API std::string plan_cache_key(LinearKind kind, const LinearSpec& spec, int ranks,
                                                    const Device& device);

/// What the cost model chooses, or, where the options leave the choice open, what `cache` has for this key. `why` says
/// which of the two it is. Where LinearOptions::sms is set the cost model chooses. A kept choice that is not possible
/// is ignored, and a line in the log says so. Throws as `choose` does.
[[nodiscard]] TANDEM_API LinearChoice choose_tuned(LinearKind kind, const LinearSpec& spec, int ranks,
                                                   const Device& device, const LinearOptions& options,
                                                   const PlanCache& cache, const Log& log);

}  // namespace tandem
