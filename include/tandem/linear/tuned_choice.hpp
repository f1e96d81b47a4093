// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tandem/base/export.hpp"
#include "tandem/base/log.hpp"
#include "tandem/collective/plan_cache.hpp"
#include "tandem/device/device.hpp"
#include "tandem/linear/cost_model.hpp"

namespace tandem {

/// The plan cache key of a linear operation. Plans that differ only in bias, activation, auxiliary, alpha or beta share
/// a choice, except where these determine how a sum is made, which have their own keys: a sum over ranks that is added
/// to y, one of two ranks with an activation, and a 16-bit gradient that is added to dW. `spec` is as `choose` takes
/// it, of the team's first rank.
[[nodiscard]] TANDEM_API std::string plan_cache_key(LinearKind kind, const LinearSpec& spec, int ranks,
                                                    const Device& device);

/// The choice that `cache` has for this operation, if the options leave it open (algorithm "auto", no groups, no sms,
/// no leave_sms) and there are two ranks or more; else the cost model's. `why` says which. A cached choice that is
/// impossible is ignored with a warning in the log. Throws as `choose` does.
[[nodiscard]] TANDEM_API LinearChoice choose_tuned(LinearKind kind, const LinearSpec& spec, int ranks,
                                                   const Device& device, const LinearOptions& options,
                                                   const PlanCache& cache, const Log& log);

}  // namespace tandem
