// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_workers.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/base/trace.hpp"

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
    if (threads_.empty()) {
      threads_.emplace_back([this] { work(); });
      ++starting_;
    }
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
  if (!lacks_threads()) {
    work_ready_.notify_one();
  } else if (!add_thread()) {
    wake_pacemaker();  // it stands in
  }
}

bool HostWorkers::add_thread() noexcept {
  const SignalsBlocked guard;
  try {
    threads_.emplace_back([this] { work(); });
    ++starting_;
    return true;
  } catch (const std::system_error& error) {
    refusal_.store(error.code().value(), std::memory_order_relaxed);
  } catch (...) {  // no memory for the thread's entry
    refusal_.store(ENOMEM, std::memory_order_relaxed);
  }
  refused_.store(true, std::memory_order_seq_cst);
  return false;
}

void HostWorkers::ask_once_more() noexcept {
  const std::lock_guard lock(mutex_);
  if (lacks_threads()) add_thread();
}

std::string HostWorkers::lack(std::int64_t since_ns) {
  const std::lock_guard lock(mutex_);
  if (refused_.load(std::memory_order_relaxed) && lacks_threads()) {
    lack_ = format("the system gives no thread to {} of its streams: {}", called_count_ - idle_ - starting_, refusal());
    lacked_at_ns_ = Trace::now_ns();
  }
  return lacked_at_ns_ >= since_ns ? lack_ : "";
}

std::string HostWorkers::refusal() const {
  const int error = refusal_.load(std::memory_order_relaxed);
  return error == 0 ? "" : std::generic_category().message(error);
}

void HostWorkers::work() noexcept {
  // A thread inherits its creator's time slice, which may be the shortest one.
  set_time_slice(TimeSlice::usual);
  StreamPriority runs_as = StreamPriority::normal;
  std::unique_lock lock(mutex_);
  --starting_;
  for (;;) {
    while (first_called_ == nullptr && !stop_.load(std::memory_order_relaxed)) {
      ++idle_;
      work_ready_.wait(lock);
      --idle_;
    }
    if (first_called_ == nullptr) return;
    drain_first(lock, runs_as);
  }
}

// Takes the first called stream off the list and drains it, without the lock.
void HostWorkers::drain_first(std::unique_lock<std::mutex>& lock, StreamPriority& runs_as) noexcept {
  HostStream* const stream = first_called_;
  first_called_ = stream->next_called_;
  if (first_called_ == nullptr) last_called_ = nullptr;
  if (--called_count_ == 0) refused_.store(false, std::memory_order_relaxed);
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

void HostWorkers::call_later(HostStream& stream) noexcept {
  if (stands_in_.load(std::memory_order_seq_cst)) return call(stream);
  // Already on the list: the pacemaker clears the flag before it looks for tasks, so it will see this one.
  if (stream.deferred_.load(std::memory_order_seq_cst)) return;
  if (stream.deferred_.exchange(true, std::memory_order_seq_cst)) return;
  stream.add_reference();
  HostStream* first = deferred_.load(std::memory_order_relaxed);
  do {
    stream.next_deferred_ = first;
  } while (!deferred_.compare_exchange_weak(first, &stream, std::memory_order_seq_cst, std::memory_order_relaxed));
  // The pacemaker may have begun to stand in after it had looked at the list, but before this stream was on it.
  if (stands_in_.load(std::memory_order_seq_cst)) return call(stream);
  wake_pacemaker();
}

void HostWorkers::wake_pacemaker() noexcept {
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
    if (refused_.load(std::memory_order_relaxed)) watched = stand_in(watched);
    idle_ticks = watched == nullptr ? idle_ticks + 1 : 0;
    tick_length = called_in_tick_ ? shortest_tick : std::min(2 * tick_length, longest_tick);
    if (idle_ticks < idle_ticks_before_sleep) {
      futex_wait(&pacemaker_sleeps_, 0, tick_length, FutexScope::process);
      continue;
    }
    pacemaker_sleeps_.store(1, std::memory_order_seq_cst);
    while (pacemaker_sleeps_.load(std::memory_order_seq_cst) != 0 &&
           deferred_.load(std::memory_order_seq_cst) == nullptr && !refused_.load(std::memory_order_seq_cst) &&
           !stop_.load(std::memory_order_seq_cst)) {
      futex_wait(&pacemaker_sleeps_, 1, sleep_slice, FutexScope::process);
    }
    pacemaker_sleeps_.store(0, std::memory_order_seq_cst);
    idle_ticks = 0;
  }
  for (HostStream* rest : {watched, deferred_.exchange(nullptr, std::memory_order_acquire)}) {
    while (rest != nullptr) std::exchange(rest, rest->next_deferred_)->drop_reference();
  }
}

// Drains what is called and finds no worker. Until this returns nothing ticks, so light work, too, calls workers at
// once: that of the watched streams here, that queued later in `call_later`.
HostStream* HostWorkers::stand_in(HostStream* watched) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!lacks_threads() || add_thread()) return watched;
  }
  stands_in_.store(true, std::memory_order_seq_cst);
  watched = tick(watched);  // adds those put on the list before
  for (HostStream* stream = watched; stream != nullptr; stream = stream->next_deferred_) {
    if (stream->has_pending() && !stream->draining_.load(std::memory_order_seq_cst)) call(*stream);
  }
  StreamPriority runs_as = StreamPriority::high;
  {
    std::unique_lock lock(mutex_);
    while (lacks_threads() && !add_thread()) drain_first(lock, runs_as);
  }
  set_time_slice(TimeSlice::shortest);
  stands_in_.store(false, std::memory_order_seq_cst);
  return watched;
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
  HostStream* added = deferred_.exchange(nullptr, std::memory_order_seq_cst);
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
