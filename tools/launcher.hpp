// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"

namespace tandem::tools {

struct LaunchOptions {
  int ranks = 1;
  std::vector<std::string> program;                              ///< and its arguments
  std::vector<std::pair<std::string, std::string>> environment;  ///< for every rank, in addition to its own variables
  bool stop_on_failure = true;                                   ///< false: the others continue when a rank fails
  bool bind = false;                                             ///< pins each rank to its share of the CPUs
  bool prefix = true;                                            ///< each line of output begins with "[RANK] "
  bool report = false;                                           ///< reports how each rank ended even if none failed
};

/// The program cannot be started.
class NotStarted : public Error {
 public:
  NotStarted(const std::string& program, int reason);

  /// What a shell's exit code would be: 127 if there is no such program, else 126.
  [[nodiscard]] int code() const noexcept { return code_; }

 private:
  int code_;
};

/// Starts the ranks and waits until all have ended. Forwards SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2, and
/// kills ranks that have not ended 30 s after SIGTERM or SIGHUP, or when one of the first four comes again.
/// Each rank is a process group of its own: when the rank ends, the processes that it started are killed, unless they
/// left the group; when this process is killed, even by SIGKILL, so are all ranks. Rank 0 reads this process's input
/// unless that is a terminal; the others have no input. If their output is not read, only the ranks are delayed.
/// Returns 0, or the exit code of the rank that failed first (128 + N for signal N), or else 1 if their output could
/// not be written; reports on stderr which rank failed, and at the end how each one ended. Throws NotStarted, and
/// InvalidArgument if the ranks to be pinned do not divide over the CPUs.
[[nodiscard]] int launch(const LaunchOptions& options);

}  // namespace tandem::tools
