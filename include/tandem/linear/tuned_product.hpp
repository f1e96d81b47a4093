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

/// The plan cache key of the fastest algorithm for `m` rows of a GEMM. It does not depend on bias, activation,
/// auxiliary, alpha, beta or the ranks: all plans with the same local GEMM share its tuning.
[[nodiscard]] TANDEM_API std::string product_cache_key(const GemmSpec& spec, std::int64_t m, const Device& device);

/// The values of m that a GEMM is tuned for: `planned_rows` down to spec.m / 8, as GEMMs of parts have them.
[[nodiscard]] TANDEM_API std::vector<std::int64_t> tuned_rows(const GemmSpec& spec);

/// The algorithms that `cache` has for the `tuned_rows` of a GEMM.
[[nodiscard]] TANDEM_API std::vector<GemmAlgorithm> kept_algorithms(const GemmSpec& spec, const Device& device,
                                                                    const PlanCache& cache, const Log& log);

/// Collective: a GEMM of this rank, with the algorithms that the plan cache of the team's first rank has for it. Specs
/// may differ from rank to rank in m, n and k. Algorithms that the library does not offer are ignored with a warning in
/// the log; Gemm::describe says what was tuned. Throws as Device::gemm does.
[[nodiscard]] TANDEM_API std::unique_ptr<Gemm> tuned_gemm(const Team& team, const GemmSpec& spec);

/// `count` (at least 1) instances of one GEMM, to be run concurrently: each has its own workspace.
[[nodiscard]] TANDEM_API std::vector<std::unique_ptr<Gemm>> tuned_gemms(const Team& team, const GemmSpec& spec,
                                                                        std::size_t count);

}  // namespace tandem
