// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tandem/base/export.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

/// Why not every rank of the team can read every other one's private memory (malloc's): "rank 1 cannot read rank 0 (…):
/// Operation not permitted"; empty if they all can. Equal on all ranks. The first call for a team is collective and
/// tries it; later calls return the same. Throws what Team::exchange throws.
[[nodiscard]] TANDEM_API std::string why_no_loans(const Team& team);

/// The time of a read from another process divided by that of a plain copy, on the rank where this is largest: the
/// system pins the pages first, which takes half a copy's time on one machine and five on another. Each process
/// measures it once, on 256 KiB. 0 if a rank cannot read another's memory. Collective and throwing like `why_no_loans`.
[[nodiscard]] TANDEM_API double loan_cost(const Team& team);

}  // namespace tandem
