// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <sys/types.h>

namespace tandem::testing {

/// A process's state as in proc(5): 'T' while it is stopped, 'Z' if it has ended and its parent has not waited for it
/// yet, …; 0 if there is no such process.
[[nodiscard]] char state_of(pid_t pid);

/// How a command ended.
struct Outcome {
  int code = -1;  ///< its exit code; -1 if it was killed or not started
  std::string out;
};
/// Runs a line of sh, and captures its stdout.
[[nodiscard]] Outcome run_command(const std::string& line);

}  // namespace tandem::testing
