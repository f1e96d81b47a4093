// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <sys/types.h>

#include "tandem/team/file_descriptor.hpp"

namespace tandem::tools {

/// A process beside the launcher, which waits for the launcher's end. Should that be sudden (SIGKILL, the system out of
/// memory), it kills the process groups that are then still watched. The kernel ends the ranks themselves, but not what
/// they started: a rank that is a script would leave its program behind.
class LaunchGuard {
 public:
  /// Starts it, to watch at most `groups` process groups. Throws Error if the system gives no process.
  explicit LaunchGuard(std::size_t groups);
  LaunchGuard(const LaunchGuard&) = delete;
  LaunchGuard& operator=(const LaunchGuard&) = delete;
  /// Ends it.
  ~LaunchGuard();

  /// Process group `group` is watched as number `index`, until it is forgotten. Safe in a child that is still to exec.
  void watch(std::size_t index, pid_t group) noexcept { groups_[index] = group; }
  /// Called while nobody else can get the group's number: before its leader, if it has ended, is waited for.
  void forget(std::size_t index) noexcept { groups_[index] = 0; }

 private:
  [[noreturn]] void guard(int lifeline) noexcept;

  std::span<std::atomic<pid_t>> groups_;  // shared with the guard and with ranks that are about to start; 0: none
  FileDescriptor lifeline_;               // open while the launcher lives
  pid_t pid_ = -1;
};

}  // namespace tandem::tools
