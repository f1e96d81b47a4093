// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tandem/base/export.hpp"
#include "tandem/base/log.hpp"
#include "tandem/collective/plan_cache.hpp"
#include "tandem/device/device.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

/// Where a plan cache has the fastest algorithm for `m` rows of a product. Bias, activation, its auxiliary, alpha and
/// beta have no part in it, nor have the ranks: every plan that multiplies so shares what one was tuned for.
[[nodiscard]] TANDEM_API std::string product_cache_key(const GemmSpec& spec, std::int64_t m, const Device& device);

/// The m that a product is tuned for: those of `planned_rows` down to an eighth, as pieces of it have them.
[[nodiscard]] TANDEM_API std::vector<std::int64_t> tuned_rows(const GemmSpec& spec);

/// What `cache` has for these.
[[nodiscard]] TANDEM_API std::vector<GemmAlgorithm> kept_algorithms(const GemmSpec& spec, const Device& device,
                                                                    const PlanCache& cache, const Log& log);

/// Collective: a product of this rank's, by the algorithms that the plan cache of the team's first rank has for it.
/// Specs may differ from rank to rank in m, n and k. What the library does not offer is ignored, and a line in the log
/// says so; Gemm::describe says what was tuned. Throws as Device::gemm does.
[[nodiscard]] TANDEM_API std::unique_ptr<Gemm> tuned_gemm(const Team& team, const GemmSpec& spec);

/// The same product so many times, at least once, for runs at once: each has a workspace of its own.
[[nodiscard]] TANDEM_API std::vector<std::unique_ptr<Gemm>> tuned_gemms(const Team& team, const GemmSpec& spec,
                                                                        std::size_t count);

}  // namespace tandem
