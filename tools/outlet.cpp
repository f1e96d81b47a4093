// SPDX-License-Identifier: Apache-2.0
#include "tools/outlet.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <poll.h>
#include <unistd.h>
#include <utility>

namespace tandem::tools {

void Outlet::add(int fd, std::string text) {
  if (text.empty() || at(fd) != Reader::here) return;
  if (waiting_.empty()) taken_ = Clock::now();
  waiting_.push_back({fd, std::move(text)});
  write();
}

// Not with O_NONBLOCK, which would affect every process that shares the descriptor, such as the shell. Instead: a pipe
// that poll reports as writable takes PIPE_BUF bytes without blocking.
void Outlet::write() {
  while (!waiting_.empty()) {
    const auto& [fd, rest] = waiting_.front();
    if (at(fd) == Reader::here) {
      pollfd polled{fd, POLLOUT, 0};
      if (::poll(&polled, 1, 0) <= 0) return;
      const ssize_t size = ::write(fd, rest.data() + written_, std::min<std::size_t>(rest.size() - written_, PIPE_BUF));
      if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (size < 0) {
        if (errno != EPIPE && error_ == 0) error_ = errno;
        at(fd) = errno == EPIPE ? Reader::gone : Reader::given_up;
        continue;
      }
      taken_ = Clock::now();
      written_ += static_cast<std::size_t>(size);
      if (written_ < rest.size()) continue;
    }
    waiting_.pop_front();
    written_ = 0;
  }
}

Outlet::Clock::duration Outlet::stalled() const {
  return waiting_.empty() ? Clock::duration::zero() : Clock::now() - taken_;
}

void Outlet::give_up() {
  if (waiting_.empty()) return;
  at(waiting_.front().fd) = Reader::given_up;
  taken_ = Clock::now();  // restarts the clock for the other reader, whose text was queued after this one's
  write();
}

}  // namespace tandem::tools
