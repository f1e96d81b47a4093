// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_workers.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "base/signals_blocked.hpp"
#include "device/host/futex.hpp"
#include "device/host/time_slice.hpp"

namespace tandem {

namespace {

using namespace std::chrono_literals;

// Each tick costs a core 15 µs, and 45 in some virtual machines, where it causes exits to the hypervisor and cache
// misses after them. A tick in which no worker had to be called is followed by a longer one.
constexpr std::chrono::microseconds shortest_tick = 100us;
constexpr std::chrono::microseconds longest_tick = 1600us;
constexpr int idle_ticks_before_sleep = 5;
constexpr auto sleep_slice = 1s;

}  // namespace

HostWorkers::~HostWorkers() {
  {
    const std::lock_guard lock(mutex_);
    stop_.store(true, std::memory_order_seq_cst);
  }
  work_ready_.notify_all();
  pacemaker_sleeps_.store(0, std::memory_order_seq_cst);
  futex_wake_all(&pacemaker_sleeps_, FutexScope::process);
  // The pacemaker first: as long as it runs, it may start a worker.
  if (pacemaker_.joinable()) pacemaker_.join();
  for (std::thread& thread : threads_) thread.join();
}

void HostWorkers::start_once() {
  const std::lock_guard lock(mutex_);
  if (started_.load(std::memory_order_relaxed)) return;
  const SignalsBlocked guard;
  try {
    if (threads_.empty()) threads_.emplace_back([this] { work(); });
    pacemaker_ = std::thread([this] { keep_pace(); });
  } catch (const std::system_error& error) {
    throw DeviceError(format("host device: the system gives no thread for a stream's work: {}", error.what()));
  }
  started_.store(true, std::memory_order_release);
}

void HostWorkers::call(HostStream& stream) noexcept {
  if (stream.called_.exchange(true, std::memory_order_seq_cst)) return;
  stream.add_reference();
  const std::lock_guard lock(mutex_);
  if (stream.priority() == StreamPriority::high) {
    stream.next_called_ = first_called_;
    first_called_ = &stream;
    if (last_called_ == nullptr) last_called_ = &stream;
  } else {
    stream.next_called_ = nullptr;
    (last_called_ != nullptr ? last_called_->next_called_ : first_called_) = &stream;
    last_called_ = &stream;
  }
  ++called_count_;
  if (called_count_ > idle_) {
    const SignalsBlocked guard;
    try {
      threads_.emplace_back([this] { work(); });
    } catch (...) {
      // No new thread: the stream stays on the list, for the next idle worker, or a thread that synchronizes drains it.
      return;
    }
  } else {
    work_ready_.notify_one();
  }
}

void HostWorkers::work() noexcept {
  // A thread inherits its creator's time slice, which may be the shortest one.
  set_time_slice(TimeSlice::usual);
  StreamPriority runs_as = StreamPriority::normal;
  std::unique_lock lock(mutex_);
  for (;;) {
    while (first_called_ == nullptr && !stop_.load(std::memory_order_relaxed)) {
      ++idle_;
      work_ready_.wait(lock);
      --idle_;
    }
    if (first_called_ == nullptr) return;
    HostStream* const stream = first_called_;
    first_called_ = stream->next_called_;
    if (first_called_ == nullptr) last_called_ = nullptr;
    --called_count_;
    lock.unlock();
    {
      const HostStreamPtr hold = HostStreamPtr::adopt(stream);
      if (stream->priority() != runs_as) {
        runs_as = stream->priority();
        set_time_slice(runs_as == StreamPriority::high ? TimeSlice::shortest : TimeSlice::usual);
      }
      // From here on a new call puts the stream on the list again; what was queued before is drained below.
      stream->called_.store(false, std::memory_order_seq_cst);
      stream->drain_as_worker();
    }
    lock.lock();
  }
}

void HostWorkers::call_later(HostStream& stream) noexcept {
  // Already on the list: the pacemaker clears the flag before it looks for tasks, so it will see this one.
  if (stream.deferred_.load(std::memory_order_seq_cst)) return;
  if (stream.deferred_.exchange(true, std::memory_order_seq_cst)) return;
  stream.add_reference();
  HostStream* first = deferred_.load(std::memory_order_relaxed);
  do {
    stream.next_deferred_ = first;
  } while (!deferred_.compare_exchange_weak(first, &stream, std::memory_order_seq_cst, std::memory_order_relaxed));
  if (pacemaker_sleeps_.load(std::memory_order_seq_cst) != 0 &&
      pacemaker_sleeps_.exchange(0, std::memory_order_seq_cst) != 0) {
    futex_wake_all(&pacemaker_sleeps_, FutexScope::process);
  }
}

void HostWorkers::keep_pace() noexcept {
  // If this thread ran late, so would the streams for which it calls workers.
  set_time_slice(TimeSlice::shortest);
  HostStream* watched = nullptr;
  int idle_ticks = 0;
  auto tick_length = shortest_tick;
  while (!stop_.load(std::memory_order_relaxed)) {
    called_in_tick_ = false;
    watched = tick(watched);
    idle_ticks = watched == nullptr ? idle_ticks + 1 : 0;
    tick_length = called_in_tick_ ? shortest_tick : std::min(2 * tick_length, longest_tick);
    if (idle_ticks < idle_ticks_before_sleep) {
      futex_wait(&pacemaker_sleeps_, 0, tick_length, FutexScope::process);
      continue;
    }
    pacemaker_sleeps_.store(1, std::memory_order_seq_cst);
    while (pacemaker_sleeps_.load(std::memory_order_seq_cst) != 0 &&
           deferred_.load(std::memory_order_seq_cst) == nullptr && !stop_.load(std::memory_order_seq_cst)) {
      futex_wait(&pacemaker_sleeps_, 1, sleep_slice, FutexScope::process);
    }
    pacemaker_sleeps_.store(0, std::memory_order_seq_cst);
    idle_ticks = 0;
  }
  for (HostStream* rest : {watched, deferred_.exchange(nullptr, std::memory_order_acquire)}) {
    while (rest != nullptr) std::exchange(rest, rest->next_deferred_)->drop_reference();
  }
}

// Checks the watched streams and adds those put on the list since the last tick; returns those to keep watching.
HostStream* HostWorkers::tick(HostStream* watched) noexcept {
  HostStream* kept = nullptr;
  while (watched != nullptr) {
    HostStream* const stream = std::exchange(watched, watched->next_deferred_);
    if (keep_watching(*stream)) {
      stream->next_deferred_ = kept;
      kept = stream;
    } else {
      stream->drop_reference();
    }
  }
  HostStream* added = deferred_.exchange(nullptr, std::memory_order_acquire);
  while (added != nullptr) {
    HostStream* const stream = std::exchange(added, added->next_deferred_);
    stream->completed_at_last_tick_ = stream->completed_.load(std::memory_order_relaxed);
    stream->next_deferred_ = kept;
    kept = stream;
  }
  return kept;
}

bool HostWorkers::keep_watching(HostStream& stream) noexcept {
  const std::uint64_t completed = stream.completed_.load(std::memory_order_acquire);
  const bool pending = completed < stream.enqueued_.load(std::memory_order_seq_cst);
  const bool draining = stream.draining_.load(std::memory_order_seq_cst);
  if (pending && !draining && completed != stream.completed_at_last_tick_) {
    stream.completed_at_last_tick_ = completed;
    return true;
  }
  if (pending && !draining) {
    called_in_tick_ = true;
    call(stream);
  }
  // Done, being drained, or handed to a worker. A task queued just before the flag is cleared relied on this list, so
  // check again.
  stream.deferred_.store(false, std::memory_order_seq_cst);
  if (!stream.has_pending() || stream.draining_.load(std::memory_order_seq_cst)) return false;
  stream.completed_at_last_tick_ = stream.completed_.load(std::memory_order_relaxed);
  return !stream.deferred_.exchange(true, std::memory_order_seq_cst);
}

void HostWorkers::remember(HostStream& stream) {
  const std::lock_guard lock(streams_mutex_);
  streams_.push_back(&stream);
}

void HostWorkers::forget(HostStream& stream) noexcept {
  const std::lock_guard lock(streams_mutex_);
  std::erase(streams_, &stream);
}

std::vector<HostStreamPtr> HostWorkers::streams() {
  std::vector<HostStreamPtr> result;
  const std::lock_guard lock(streams_mutex_);
  result.reserve(streams_.size());
  for (HostStream* const stream : streams_) {
    if (stream->try_add_reference()) result.push_back(HostStreamPtr::adopt(stream));
  }
  return result;
}

}  // namespace tandem
