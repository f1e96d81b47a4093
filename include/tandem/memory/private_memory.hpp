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

}  // namespace tandem
