// SPDX-License-Identifier: Apache-2.0
#include "device/host/emulated_link.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/prctl.h>
#include <time.h>

#include "tandem/base/trace.hpp"

namespace tandem {

namespace {

// A stream that reaches its next transfer within this time did not wait for anything in between: putting a signal takes
// 1 µs, or 50 if it wakes a thread.
constexpr std::int64_t at_once_ns = 100'000;

void sleep_until(std::int64_t when_ns) noexcept {
  if (Trace::now_ns() >= when_ns) return;
  // A sleep may end too late by the thread's timer slack, by default 50 µs: as long as a whole transfer. The thread may
  // be the user's own, so its slack is restored.
  const int slack = ::prctl(PR_GET_TIMERSLACK);
  ::prctl(PR_SET_TIMERSLACK, 1UL);
  const timespec when{.tv_sec = when_ns / 1'000'000'000, .tv_nsec = when_ns % 1'000'000'000};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) == EINTR) {
  }
  if (slack > 0) ::prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack));
}

}  // namespace

EmulatedLink::Transfer EmulatedLink::transfer(Pace& pace, std::size_t bytes) noexcept {
  return {.link = this, .pace = &pace, .bytes = bytes, .queued_ns = Trace::now_ns()};
}

std::int64_t EmulatedLink::occupy(std::size_t bytes, std::int64_t ready_ns) {
  const double seconds = options_.bytes_per_second > 0 ? static_cast<double>(bytes) / options_.bytes_per_second : 0.0;
  const std::lock_guard lock(mutex_);
  free_at_ns_ = std::max(ready_ns, free_at_ns_) + static_cast<std::int64_t>(seconds * 1e9);
  return free_at_ns_ + options_.latency.count();
}

std::int64_t EmulatedLink::Transfer::ready_ns() const noexcept {
  const std::int64_t now = Trace::now_ns();
  const bool at_once = now - pace->woke_ns < at_once_ns;
  return at_once ? std::max(now - pace->late_ns, queued_ns) : now;
}

EmulatedLink::Crossing::Crossing(const Transfer& transfer, std::size_t bytes, std::int64_t ready_ns) {
  if (transfer.link == nullptr) return;
  pace_ = transfer.pace;
  arrival_ns_ = transfer.link->occupy(bytes, ready_ns);
}

EmulatedLink::Crossing::~Crossing() {
  if (pace_ == nullptr) return;
  sleep_until(arrival_ns_);
  pace_->woke_ns = Trace::now_ns();
  pace_->late_ns = pace_->woke_ns - arrival_ns_;
}

}  // namespace tandem
