// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tandem {

/// Remembers the process in which it is made: a child that `fork` makes has copies of everything, but no threads, and
/// locks that nobody releases. Asking costs no system call.
class HomeProcess {
 public:
  /// Whether this is a copy in a forked child.
  [[nodiscard]] bool is_left() const noexcept { return forks() != forks_; }

 private:
  /// How many forks led to this process, since the first call.
  [[nodiscard]] static unsigned forks() noexcept;

  unsigned forks_ = forks();
};

}  // namespace tandem
