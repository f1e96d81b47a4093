// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

namespace tandem::tools {

/// Output that is queued for this process's stdout and stderr, in one order: if both lead to the same place, lines are
/// not mixed. A reader that stops reading (a pager left on its page) delays nothing else: its output stays here, and no
/// call blocks. To be notified of readers that are gone, ignore SIGPIPE.
class Outlet {
 public:
  using Clock = std::chrono::steady_clock;

  /// Writes `text` to `fd`, STDOUT_FILENO or STDERR_FILENO, after everything that was added before.
  void add(int fd, std::string text);
  /// Writes as much as the readers accept now.
  void write();
  [[nodiscard]] bool empty() const noexcept { return waiting_.empty(); }
  /// The descriptor that must be writable before `write` can continue; -1 if nothing is queued.
  [[nodiscard]] int waits_for() const noexcept { return waiting_.empty() ? -1 : waiting_.front().fd; }
  /// How long no output has been accepted; zero if nothing is queued.
  [[nodiscard]] Clock::duration stalled() const;
  /// Drops what is queued for the current reader, and everything that is added for it later.
  void give_up();
  /// The errno of the first write that failed for another reason than a missing reader, such as a full disk; 0 if none.
  [[nodiscard]] int error() const noexcept { return error_; }
  /// Whether the reader of `fd` has closed it.
  [[nodiscard]] bool abandoned(int fd) const noexcept { return at(fd) == Reader::gone; }

 private:
  enum class Reader : std::uint8_t { here, gone, given_up };
  struct Text {
    int fd;
    std::string rest;
  };

  [[nodiscard]] const Reader& at(int fd) const noexcept { return readers_[static_cast<std::size_t>(fd)]; }
  [[nodiscard]] Reader& at(int fd) noexcept { return readers_[static_cast<std::size_t>(fd)]; }

  std::array<Reader, 3> readers_{};  // by descriptor
  std::deque<Text> waiting_;
  std::size_t written_ = 0;  // bytes of the first text
  int error_ = 0;
  Clock::time_point taken_;  // when output was last accepted, or was added to an empty queue
};

}  // namespace tandem::tools
