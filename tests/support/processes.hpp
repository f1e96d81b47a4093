// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

namespace tandem::testing {

/// The letter that proc(5) has for what a process does: 'T' while it is stopped, 'Z' until its parent has heard of its
/// end; 0 where there is no such process.
[[nodiscard]] char state_of(pid_t pid);

}  // namespace tandem::testing
