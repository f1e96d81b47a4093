// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tandem/base/export.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

/// Why not every rank of the team can read every other one's private memory (malloc's): "rank 1 cannot read rank 0 (…):
/// Operation not permitted"; empty if they all can. Equal on all ranks. Collective at the first call for a team, which
/// tries it; later calls give the same. Throws what Team::exchange throws.
[[nodiscard]] TANDEM_API std::string why_no_loans(const Team& team);

/// How many times as long as a copy a read of another process's memory takes, where all can, on the rank where it takes
/// longest: the system pins the pages first, which costs one machine half a copy and another one five. Measured by each
/// process once, on 256 KiB. 0 where one cannot; else as `why_no_loans`.
[[nodiscard]] TANDEM_API double loan_cost(const Team& team);

}  // namespace tandem
