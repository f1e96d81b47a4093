// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <sys/types.h>

namespace tandem::testing {

/// The letter that proc(5) has for what a process does: 'T' while it is stopped, 'Z' until its parent has heard of its
/// end; 0 where there is no such process.
[[nodiscard]] char state_of(pid_t pid);

/// How a command ended.
struct Outcome {
  int code = -1;  ///< its exit code; -1 if it has none
  std::string out;
};
/// Runs a line of sh, and takes what it writes to its stdout.
[[nodiscard]] Outcome run_command(const std::string& line);

}  // namespace tandem::testing
