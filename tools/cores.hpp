// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>
#include <vector>

namespace tandem::tools {

/// For each rank, the CPUs that it is to keep to, of those that this process may use: its share of them, or, where
/// there are more ranks than CPUs, the one that as many ranks share as each other one. Empty where ranks do not divide
/// over the CPUs like that: then it is better to leave them to the system, which moves them about.
[[nodiscard]] std::vector<cpu_set_t> divide_cores(int ranks);

}  // namespace tandem::tools
