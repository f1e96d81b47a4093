// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_crew.hpp"

#include <algorithm>
#include <cstddef>

#include "base/signals_blocked.hpp"
#include "device/host/time_slice.hpp"

namespace tandem {

HostCrew::~HostCrew() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void HostCrew::run(int parts, const Part& part) {
  Work work{.part = part, .parts = parts, .next = {}, .failure_mutex = {}, .failure = {}};
  const std::unique_lock turn(turn_, std::try_to_lock);
  const bool shared = turn.owns_lock() && size_ > 1 && parts > 1;
  if (shared) {
    if (threads_.empty()) make_threads();
    {
      const std::lock_guard lock(mutex_);
      work_ = &work;
      ++works_;
    }
    const auto wanted = std::min(threads_.size(), static_cast<std::size_t>(parts - 1));
    for (std::size_t i = 0; i < wanted; ++i) work_ready_.notify_one();
  }
  take_parts(work, 0);
  if (shared) {
    std::unique_lock lock(mutex_);
    work_ = nullptr;
    work_done_.wait(lock, [&] { return helping_ == 0; });
  }
  if (work.failure) std::rethrow_exception(work.failure);
}

// As many threads as the system grants: fewer can do the same work.
void HostCrew::make_threads() noexcept {
  const SignalsBlocked guard;
  try {
    for (int member = 1; member < size_; ++member) {
      threads_.emplace_back([this, member] { help(member); });
    }
  } catch (...) {  // no thread, or no memory for its entry
    return;
  }
}

void HostCrew::help(int member) noexcept {
  // A thread inherits its creator's time slice, which may be the shortest one.
  set_time_slice(TimeSlice::usual);
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    work_ready_.wait(lock, [&] { return stop_ || (work_ != nullptr && works_ != seen); });
    if (stop_) return;
    seen = works_;
    Work& work = *work_;
    ++helping_;
    lock.unlock();
    take_parts(work, member);
    lock.lock();
    if (--helping_ == 0) work_done_.notify_one();
  }
}

void HostCrew::take_parts(Work& work, int member) noexcept {
  for (int part = work.next.fetch_add(1, std::memory_order_relaxed); part < work.parts;
       part = work.next.fetch_add(1, std::memory_order_relaxed)) {
    try {
      work.part(part, member);
    } catch (...) {
      const std::lock_guard lock(work.failure_mutex);
      if (!work.failure) work.failure = std::current_exception();
    }
  }
}

}  // namespace tandem
