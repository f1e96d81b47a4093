// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <sys/types.h>

#include "tandem/team/file_descriptor.hpp"

namespace tandem::tools {

/// A process that waits for the launcher to end. If the launcher ends suddenly (SIGKILL, out of memory), it kills the
/// process groups that are still watched. The kernel kills the ranks themselves, but not the processes that they
/// started: a rank that is a script would leave its program running.
class LaunchGuard {
 public:
  /// Starts the guard for at most `groups` process groups. Throws Error if the system cannot start a process.
  explicit LaunchGuard(std::size_t groups);
  LaunchGuard(const LaunchGuard&) = delete;
  LaunchGuard& operator=(const LaunchGuard&) = delete;
  /// Ends the guard, which kills the groups that are still watched.
  ~LaunchGuard();

  /// Watches process group `group` as number `index`, until `forget`. Safe in a child between fork and exec.
  void watch(std::size_t index, pid_t group) noexcept { groups_[index] = group; }
  /// Must be called while the group's number cannot be reused: before waiting for its leader, if that has ended.
  void forget(std::size_t index) noexcept { groups_[index] = 0; }

 private:
  [[noreturn]] void guard(int lifeline) noexcept;

  std::span<std::atomic<pid_t>> groups_;  // shared with the guard and with ranks that have not yet called exec; 0: none
  FileDescriptor lifeline_;               // open while the launcher lives
  pid_t pid_ = -1;
};

}  // namespace tandem::tools
