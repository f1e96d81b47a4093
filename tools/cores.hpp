// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>
#include <vector>

namespace tandem::tools {

/// For each rank, the CPUs to which it should be pinned, out of those that this process may use: its share of them, or,
/// with more ranks than CPUs, one CPU, each shared by equally many ranks. Empty if that is impossible: then the ranks
/// are better left to the scheduler, which migrates them.
[[nodiscard]] std::vector<cpu_set_t> divide_cores(int ranks);

}  // namespace tandem::tools
