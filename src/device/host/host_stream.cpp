// SPDX-License-Identifier: Apache-2.0
#include "device/host/host_stream.hpp"

#include <algorithm>
#include <chrono>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "device/host/core_offer.hpp"
#include "device/host/futex.hpp"
#include "device/host/host_workers.hpp"

namespace tandem {

namespace {

using namespace std::chrono_literals;

// A thread that waits while another one drains checks this many times before it sleeps; about 2 µs.
constexpr int spins_before_sleep = 40;
constexpr int offers_before_sleep = 4;
// It sleeps in slices; after each it tries again to drain the stream itself.
constexpr auto sleep_slice = 5ms;
// This many tasks are worth a worker, however light each one is.
constexpr std::uint64_t many_tasks = 64;

}  // namespace

HostStream::~HostStream() {
  workers_.forget(*this);
  while (head_ != nullptr) {
    Segment* const next = head_->next;
    ::operator delete(head_, std::align_val_t{64});
    head_ = next;
  }
  ::operator delete(spare_.load(std::memory_order_relaxed), std::align_val_t{64});
}

void HostStream::refuse(StreamRef stream) {
  if (stream.type() != DeviceType::host) {
    throw InvalidArgument(
        format("a {} stream was given to the host device; allowed: streams made on that device", name(stream.type())));
  }
  if (stream.native_handle() == nullptr) {
    throw InvalidArgument("a stream that was never made was given to the host device");
  }
  throw InvalidArgument(
      "a stream of another host device was given; allowed: streams made on the rank's own device, "
      "while they live");
}

bool HostStream::try_add_reference() noexcept {
  std::uint32_t seen = references_.load(std::memory_order_relaxed);
  while (seen != 0) {
    if (references_.compare_exchange_weak(seen, seen + 1, std::memory_order_relaxed)) return true;
  }
  return false;
}

void HostStream::drop_reference() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void HostStream::start_workers() { workers_.start(); }

void HostStream::cork() {
  start_workers();
  enqueue_lock_.lock();
  corked_by_.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

void HostStream::uncork() noexcept {
  const bool held = held_ != 0;
  if (held) hand_over();
  corked_by_.store({}, std::memory_order_relaxed);
  enqueue_lock_.unlock();
  if (held) attend(TaskWeight::light);
}

void HostStream::hand_over() noexcept {
  newest_->last = true;
  held_ = 0;
  enqueued_.store(enqueued_.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
}

HostStream::Segment* HostStream::new_segment(std::size_t capacity) {
  void* const memory = ::operator new(sizeof(Segment) + capacity, std::align_val_t{64});
  return ::new (memory) Segment{nullptr, capacity};
}

// Returns the place for a payload at the queue's end. Each segment keeps room for one more record: the jump to the next
// segment.
std::byte* HostStream::reserve(std::size_t bytes, void (*run)(void*)) {
  const std::size_t rounded = (bytes + record_alignment - 1) / record_alignment * record_alignment;
  const std::size_t stride = sizeof(Record) + rounded;
  if (tail_ == nullptr || tail_used_ + stride + sizeof(Record) > tail_->capacity) {
    Segment* segment = nullptr;
    if (stride + sizeof(Record) <= segment_bytes) segment = spare_.exchange(nullptr, std::memory_order_acquire);
    if (segment == nullptr) segment = new_segment(std::max(segment_bytes, stride + sizeof(Record)));
    segment->next = nullptr;
    if (tail_ == nullptr) {
      head_ = segment;  // published by enqueued_, like every record
    } else {
      tail_->next = segment;
      ::new (static_cast<void*>(tail_->records() + tail_used_)) Record{nullptr, 0, true};
    }
    tail_ = segment;
    tail_used_ = 0;
  }
  std::byte* const place = tail_->records() + tail_used_;
  newest_ = ::new (static_cast<void*>(place)) Record{run, static_cast<std::uint32_t>(stride / record_alignment), false};
  ++held_;
  tail_used_ += stride;
  return place + sizeof(Record);
}

void HostStream::attend(TaskWeight weight) noexcept {
  if (draining_.load(std::memory_order_seq_cst)) return;
  const std::uint64_t pending = enqueued_.load(std::memory_order_relaxed) - completed_.load(std::memory_order_relaxed);
  if (weight == TaskWeight::heavy || pending >= many_tasks) {
    workers_.call(*this);
  } else {
    workers_.call_later(*this);
  }
}

bool HostStream::try_acquire() noexcept {
  return !draining_.load(std::memory_order_relaxed) && !draining_.exchange(true, std::memory_order_seq_cst);
}

// A sleeper increments `sleepers_` before it reads `completed_` and `draining_`; the draining thread writes those
// before it reads `sleepers_`. So no wake-up is lost.
void HostStream::wake_sleepers() noexcept {
  if (sleepers_.load(std::memory_order_seq_cst) != 0) futex_wake_all(futex_half(&completed_), FutexScope::process);
}

void HostStream::drain(std::uint64_t ticket) noexcept {
  drainer_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  std::uint64_t completed = completed_.load(std::memory_order_relaxed);
  while (completed < ticket) {
    run_next();
    ++completed;
    if (completed < ticket) {
      completed_.store(completed, std::memory_order_seq_cst);
      wake_sleepers();
    } else {
      completed_.store(completed, std::memory_order_release);  // enough: the store below is seq_cst
    }
  }
  drainer_.store({}, std::memory_order_relaxed);
  draining_.store(false, std::memory_order_seq_cst);
  wake_sleepers();
}

void HostStream::drain_as_worker() noexcept {
  while (has_pending() && try_acquire()) drain(enqueued_.load(std::memory_order_acquire));
}

void HostStream::run_next() noexcept {
  for (bool last = false; !last;) {
    auto* record = std::launder(reinterpret_cast<Record*>(head_->records() + head_used_));
    if (record->run == nullptr) {
      Segment* const done = head_;
      head_ = done->next;
      head_used_ = 0;
      Segment* surplus = done;
      if (done->capacity == segment_bytes) surplus = spare_.exchange(done, std::memory_order_acq_rel);
      ::operator delete(surplus, std::align_val_t{64});
      record = std::launder(reinterpret_cast<Record*>(head_->records()));
    }
    try {
      record->run(record + 1);
    } catch (...) {
      const std::lock_guard lock(failure_mutex_);
      if (failure_ == nullptr) {
        failure_ = std::current_exception();
        failed_at_ = completed_.load(std::memory_order_relaxed) + 1;
      }
      failed_.store(true, std::memory_order_release);
    }
    last = record->last;
    head_used_ += record->stride * record_alignment;
  }
}

void HostStream::finish(std::uint64_t ticket) noexcept {
  while (!passed(ticket)) {
    if (try_acquire()) {
      drain(ticket);
      if (has_pending()) workers_.call(*this);
    } else {
      wait_passed(ticket);
    }
  }
}

// While another thread drains: returns when the ticket has passed, or when trying to drain may succeed.
void HostStream::wait_passed(std::uint64_t ticket) noexcept {
  const int spins = core_is_wanted() ? 0 : spins_before_sleep;
  for (int i = 0; i < spins; ++i) {
    if (passed(ticket) || !draining_.load(std::memory_order_relaxed)) return;
    cpu_relax();
  }
  for (int i = 0; i < offers_before_sleep; ++i) {
    if (passed(ticket) || !draining_.load(std::memory_order_relaxed)) return;
    offer_core();
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  const std::uint64_t seen = completed_.load(std::memory_order_seq_cst);
  if (seen < ticket && draining_.load(std::memory_order_seq_cst)) {
    futex_wait(futex_half(&completed_), static_cast<std::uint32_t>(seen), sleep_slice, FutexScope::process);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

bool HostStream::poll(std::uint64_t ticket) noexcept {
  if (passed(ticket)) return true;
  if (!draining_.load(std::memory_order_seq_cst)) workers_.call(*this);
  return false;
}

void HostStream::abandon() noexcept {
  // The thread that drains now, or is called here to do so, holds a reference of its own until the last task has run.
  static_cast<void>(poll(ticket()));
  drop_reference();
}

bool HostStream::failed_up_to(std::uint64_t ticket) {
  if (!failed()) return false;
  const std::lock_guard lock(failure_mutex_);
  return failure_ != nullptr && failed_at_ <= ticket;
}

void HostStream::rethrow_up_to(std::uint64_t ticket) {
  if (!failed() && report_count_.load(std::memory_order_relaxed) == 0) return;
  std::exception_ptr failure;
  {
    const std::lock_guard lock(failure_mutex_);
    for (const Report& report : reports_) {
      if (report.first <= ticket && ticket <= report.last) failure = report.failure;
    }
    if (failed_at_ <= ticket && failure == nullptr) failure = failure_;
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

void HostStream::synchronize() {
  if (drainer_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
    throw InvalidArgument("a stream is synchronized by a function that runs on it, which would wait for itself");
  }
  finish(ticket());
  if (!failed()) return;
  std::exception_ptr failure;
  {
    const std::lock_guard lock(failure_mutex_);
    failure.swap(failure_);
    if (failure != nullptr) {
      // For waits for events that are queued but have not run: what has failed by now is no valid input behind them.
      const std::uint64_t count = report_count_.load(std::memory_order_relaxed);
      reports_.at(count % reports_kept) = {failure, failed_at_, ticket()};
      report_count_.store(count + 1, std::memory_order_relaxed);
    }
    failed_.store(false, std::memory_order_release);
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace tandem
