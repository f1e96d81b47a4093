// SPDX-License-Identifier: Apache-2.0
#include "tools/launch_guard.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tandem/base/error.hpp"

#include "base/format.hpp"

namespace tandem::tools {

LaunchGuard::LaunchGuard(std::size_t groups) {
  const auto fail = [](const char* what) { throw Error(format("{}: {}", what, std::strerror(errno))); };
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("a pipe could not be made");
  const FileDescriptor end = FileDescriptor::from_native_handle(ends[0]);
  lifeline_ = FileDescriptor::from_native_handle(ends[1]);

  const std::size_t bytes = groups * sizeof(std::atomic<pid_t>);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("mmap");
  groups_ = {static_cast<std::atomic<pid_t>*>(memory), groups};  // all zero
  std::uninitialized_value_construct(groups_.begin(), groups_.end());

  pid_ = ::fork();
  if (pid_ == 0) guard(end.get());
  if (pid_ < 0) {
    ::munmap(memory, bytes);
    fail("fork");
  }
}

LaunchGuard::~LaunchGuard() {
  lifeline_ = {};
  ::waitpid(pid_, nullptr, 0);
  ::munmap(groups_.data(), groups_.size_bytes());
}

void LaunchGuard::guard(int lifeline) noexcept {
  ::setsid();  // signals from the terminal are for the launcher, not for the guard
  ::prctl(PR_SET_NAME, "tandem guard");
  lifeline_ = {};
  char nothing = 0;
  while (::read(lifeline, &nothing, 1) < 0 && errno == EINTR) {
  }
  for (const auto& group : groups_) {
    if (group != 0) ::kill(-group, SIGKILL);
  }
  ::_exit(0);
}

}  // namespace tandem::tools
