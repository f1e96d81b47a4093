// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <string>

namespace tandem::tools {

/// What is on its way to this process's stdout and stderr, in order: two that lead to one place would cut each other's
/// lines. A reader that takes nothing (a pager that was left on its page) holds up nobody: what it does not take yet
/// stays here, and no call blocks. To be told of readers that are gone, ignore SIGPIPE.
class Outlet {
 public:
  using Clock = std::chrono::steady_clock;

  /// Writes `text` to `fd`, STDOUT_FILENO or STDERR_FILENO, once all that came before it is written.
  void add(int fd, std::string text);
  /// Writes what the readers take now.
  void write();
  [[nodiscard]] bool empty() const noexcept { return waiting_.empty(); }
  /// What has to be writable before `write` can go on; -1 if nothing waits.
  [[nodiscard]] int waits_for() const noexcept { return waiting_.empty() ? -1 : waiting_.front().fd; }
  /// How long nothing has been taken of what waits; zero if nothing waits.
  [[nodiscard]] Clock::duration stalled() const;
  /// Drops what waits for that reader, and from now on whatever is added for it.
  void give_up();
  /// The errno of the first write that failed though there is a reader, as to a full disk; 0 if none did.
  [[nodiscard]] int error() const noexcept { return error_; }
  /// Whether the reader of `fd` is gone for good.
  [[nodiscard]] bool abandoned(int fd) const noexcept { return at(fd) == Reader::gone; }

 private:
  enum class Reader : unsigned char { here, gone, given_up };
  struct Text {
    int fd;
    std::string rest;
  };

  [[nodiscard]] const Reader& at(int fd) const noexcept { return readers_[static_cast<std::size_t>(fd)]; }
  [[nodiscard]] Reader& at(int fd) noexcept { return readers_[static_cast<std::size_t>(fd)]; }

  std::array<Reader, 3> readers_{};  // by descriptor
  std::deque<Text> waiting_;
  std::size_t written_ = 0;  // of the first
  int error_ = 0;
  Clock::time_point taken_;  // when something was last taken, or began to wait behind nothing
};

}  // namespace tandem::tools
