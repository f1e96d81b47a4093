// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/base/export.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

/// How many blocks of the largest kind a kernel of each rank may have that wait for the peers' same blocks: so many
/// that all of them run at once, also where ranks share a GPU (a block that is not running yet is waited for in vain
/// while those that wait for it fill the GPU). Equal on all ranks, 1 at least. Collective at the first call for a team,
/// where the device `exchanges_mail` or `meets`; throws what Team::exchange throws.
[[nodiscard]] TANDEM_API int resident_blocks(const Team& team);

}  // namespace tandem
