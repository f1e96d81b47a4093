// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tandem::tools {

struct LaunchOptions {
  int ranks = 1;
  std::vector<std::string> program;                              ///< and its arguments
  std::vector<std::pair<std::string, std::string>> environment;  ///< variables that every rank gets besides its own
  bool stop_on_failure = true;                                   ///< else the others go on when a rank fails
  bool bind = false;                                             ///< each rank keeps to its share of the CPUs
  bool prefix = true;                                            ///< each line of output begins with "[RANK] "
  bool report = false;                                           ///< says how each rank ended also where none failed
};

/// Starts the ranks and waits until all have ended. Passes on SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2.
/// Each rank is a process group of its own: when the rank ends, what it started ends too, unless that left the group;
/// when this process is killed, even by SIGKILL, all ranks end so. Rank 0 reads this process's input unless that is a
/// terminal; the others read nothing. Who does not read their output holds up the ranks alone. Returns 0, or the exit
/// code of the rank that failed first (128 + N for signal N), or else 1 if their output could not be written; says on
/// stderr which rank failed and then how each one ended. Throws Error if the program cannot be started, and
/// InvalidArgument if ranks are to be bound that do not divide over the CPUs.
[[nodiscard]] int launch(const LaunchOptions& options);

}  // namespace tandem::tools
