// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <span>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tandem/base/trace.hpp"
#include "tandem/device/stream.hpp"

#include "device/host/emulated_link.hpp"
#include "device/host/spin_lock.hpp"

namespace tandem {

class HostWorkers;

/// How long a task may take: a heavy one wakes a worker at once (a system call), a light one is left to the next thread
/// that synchronizes, or to the pacemaker (see HostWorkers).
enum class TaskWeight : std::uint8_t { light, heavy };

/// A queue of tasks that run one after the other, on whichever thread drains it: a worker, or a thread that waits for
/// it.
///
/// At most one thread at a time drains (`draining_`), and tasks are numbered: task t has run once `completed_` >= t. So
/// an event is a stream and a ticket (the number of a task), and only a timed one queues a task when it is recorded.
/// Tasks queued between `cork` and `uncork` may share a number: they are handed over together, and complete together.
/// Tasks are stored by value in segments of memory that are reused.
///
/// No task is forgotten: a thread that enqueues either sees that another one drains, or calls a worker (at once or
/// through the pacemaker); a thread that stops draining checks once more afterwards, and calls a worker if tasks are
/// left. Both write before they read, sequentially consistently, so at least one of them sees the other.
class HostStream {
 public:
  HostStream(HostWorkers& workers, StreamPriority priority, std::uint64_t number) noexcept
      : workers_(workers), number_(number), priority_(priority) {}
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  /// Whether `stream` belongs to the device that has these workers.
  [[nodiscard]] static bool is_of(const HostWorkers& workers, StreamRef stream) noexcept {
    const auto* const mine = static_cast<const HostStream*>(stream.native_handle());
    return stream.type() == DeviceType::host && mine != nullptr && &mine->workers_ == &workers;
  }
  /// The HostStream behind `stream`. Throws InvalidArgument if it does not belong to that device.
  [[nodiscard]] static HostStream& from(StreamRef stream, const HostWorkers& workers) {
    if (!is_of(workers, stream)) refuse(stream);
    return *static_cast<HostStream*>(stream.native_handle());
  }

  void add_reference() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  /// False if the last reference is already gone.
  [[nodiscard]] bool try_add_reference() noexcept;
  void drop_reference() noexcept;

  /// Queues `task`, which is called once as task(). Thread-safe.
  template <typename Task> void enqueue(Task&& task, TaskWeight weight) {
    using Stored = std::decay_t<Task>;
    put<Stored>(0, [&](std::byte* place) { return ::new (place) Stored(std::forward<Task>(task)); }, weight);
  }

  /// Queues `task` followed by copies of all `items`; it is called once as task(std::span<const Item>...). If it has a
  /// member `begin`, which must neither wait nor throw, and everything queued before has run, task.begin(items...) is
  /// called here first: so what peers wait for need not wait until a thread drains the stream.
  template <typename Task, typename... Item>
  void enqueue_with(TaskWeight weight, Task&& task, std::span<const Item>... items) {
    static_assert((
        (std::is_trivially_copyable_v<Item> && sizeof(Item) % item_alignment == 0 && alignof(Item) <= item_alignment) &&
        ...));
    using Stored = WithItems<std::decay_t<Task>, Item...>;
    put<Stored>((items.size_bytes() + ...),
                [&](std::byte* place) {
                  if constexpr (requires { task.begin(items...); }) {
                    if (comes_next()) task.begin(items...);
                  }
                  std::byte* tail = place + sizeof(Stored);
                  const auto add = [&tail](const void* from, std::size_t bytes) {
                    if (bytes != 0) std::memcpy(tail, from, bytes);
                    tail += bytes;
                  };
                  (add(items.data(), items.size_bytes()), ...);
                  return ::new (place) Stored{std::forward<Task>(task), {items.size()...}};
                },
                weight);
  }

  /// Holds back what this thread queues until `uncork`, and hands it over together: the queue's lock is taken once, and
  /// the tasks share a number. A heavy task, or a few light ones, hand over everything held so far. Until `uncork` this
  /// thread must not wait for the stream, nor queue on another one; other threads that queue on this one block.
  void cork();
  void uncork() noexcept;

  /// Makes sure that some thread drains the queue, however light its tasks are.
  void flush() noexcept { static_cast<void>(poll(ticket())); }

  /// The number of the last task queued so far.
  [[nodiscard]] std::uint64_t ticket() const noexcept { return enqueued_.load(std::memory_order_acquire); }
  [[nodiscard]] bool passed(std::uint64_t ticket) const noexcept {
    return completed_.load(std::memory_order_acquire) >= ticket;
  }
  /// Returns once task `ticket` has run; drains the stream itself if nobody else does.
  void finish(std::uint64_t ticket) noexcept;
  /// As `passed`; if false, also makes sure that some thread drains the queue.
  [[nodiscard]] bool poll(std::uint64_t ticket) noexcept;
  /// Drops the owner's reference; what is queued still runs.
  void abandon() noexcept;
  /// Finishes everything queued so far, then throws what the first failed task threw, unless that was thrown before.
  void synchronize();

  /// Whether a task has thrown something that `synchronize` has not thrown yet.
  [[nodiscard]] bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  /// Whether that was a task up to number `ticket`.
  [[nodiscard]] bool failed_up_to(std::uint64_t ticket);
  /// Throws what `synchronize` has thrown, or will throw, for the tasks up to number `ticket`.
  void rethrow_up_to(std::uint64_t ticket);

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] StreamPriority priority() const noexcept { return priority_; }

  /// Open ranges of the trace; accessed only by tasks of this stream.
  struct OpenRange {
    const char* name;
    TraceKind kind;
    std::int64_t begin_ns;
  };
  static constexpr std::size_t max_open_ranges = 32;
  std::array<OpenRange, max_open_ranges> open_ranges{};
  std::size_t open_range_count = 0;
  std::atomic<bool> track_named{false};
  /// For this stream's transfers over an emulated link.
  EmulatedLink::Pace pace;

 private:
  friend class HostWorkers;

  static constexpr std::size_t record_alignment = 16;
  static constexpr std::size_t item_alignment = 8;
  static constexpr std::size_t segment_bytes = std::size_t{16} * 1024;
  static constexpr int most_held = 16;

  /// What `synchronize` has thrown, and the tasks that count as failed for it.
  struct Report {
    std::exception_ptr failure;
    std::uint64_t first = 1;
    std::uint64_t last = 0;
  };
  // Of the last few reports: a wait for an event that was queued before one may run after others.
  static constexpr std::size_t reports_kept = 4;

  struct alignas(record_alignment) Record {
    void (*run)(void* payload);  // runs and destroys the payload; null: the queue continues in the next segment
    std::uint32_t stride;        // from this record to the next one, in units of `record_alignment`
    bool last;                   // of the tasks that share a number
  };
  struct alignas(record_alignment) Segment {
    Segment* next;
    std::size_t capacity;  // bytes of records after this header
    [[nodiscard]] std::byte* records() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
  };
  template <typename Task, typename... Item> struct alignas(record_alignment) WithItems {
    Task task;
    std::array<std::size_t, sizeof...(Item)> counts;
    void operator()() {
      const auto* at = reinterpret_cast<const std::byte*>(this + 1);
      const auto* count = counts.data();
      const auto next = [&]<typename T>(std::type_identity<T>) {
        const std::span items(reinterpret_cast<const T*>(at), *count++);
        at += items.size_bytes();
        return items;
      };
      // Braces, not parentheses: calls to `next` are evaluated in order.
      std::apply(task, std::tuple<std::span<const Item>...>{next(std::type_identity<Item>())...});
    }
  };

  ~HostStream();
  [[noreturn]] static void refuse(StreamRef stream);

  template <typename Stored> static void run_payload(void* payload) {
    struct Guard {
      Stored* stored;
      ~Guard() { stored->~Stored(); }
    } guard{static_cast<Stored*>(payload)};
    (*guard.stored)();
  }

  /// `construct` creates a Stored at the given address, followed by its `tail_bytes`; it must not throw.
  template <typename Stored, typename Construct>
  void put(std::size_t tail_bytes, const Construct& construct, TaskWeight weight) {
    static_assert(alignof(Stored) <= record_alignment && std::is_nothrow_move_constructible_v<Stored>);
    const bool corked = corked_by_.load(std::memory_order_relaxed) == std::this_thread::get_id();
    std::unique_lock lock(enqueue_lock_, std::defer_lock);
    if (!corked) {
      start_workers();
      lock.lock();
    }
    construct(reserve(sizeof(Stored) + tail_bytes, &run_payload<Stored>));
    if (corked && weight == TaskWeight::light && held_ < most_held) return;
    hand_over();
    if (!corked) lock.unlock();
    attend(weight);
  }

  void start_workers();
  /// Makes what has been queued since the last call visible to the draining thread.
  void hand_over() noexcept;
  [[nodiscard]] std::byte* reserve(std::size_t bytes, void (*run)(void*));
  [[nodiscard]] Segment* new_segment(std::size_t capacity);
  void attend(TaskWeight weight) noexcept;
  /// Whether all tasks before the one just reserved have run. The caller holds the queue's lock.
  [[nodiscard]] bool comes_next() const noexcept { return held_ == 1 && passed(ticket()); }

  [[nodiscard]] bool try_acquire() noexcept;
  void wake_sleepers() noexcept;
  /// Runs all tasks up to number `ticket`, then releases `draining_`, which the caller holds.
  void drain(std::uint64_t ticket) noexcept;
  void drain_as_worker() noexcept;
  void run_next() noexcept;
  void wait_passed(std::uint64_t ticket) noexcept;
  [[nodiscard]] bool has_pending() const noexcept {
    return completed_.load(std::memory_order_relaxed) < enqueued_.load(std::memory_order_seq_cst);
  }

  HostWorkers& workers_;
  const std::uint64_t number_;
  const StreamPriority priority_;
  std::atomic<std::uint32_t> references_{1};

  // The enqueuing side. `tail_` is not null once `enqueued_` is not 0.
  SpinLock enqueue_lock_;
  Segment* tail_ = nullptr;
  std::size_t tail_used_ = 0;
  Record* newest_ = nullptr;  // valid while `held_` is not 0
  int held_ = 0;              // tasks not handed over yet
  std::atomic<std::thread::id> corked_by_{};
  std::atomic<std::uint64_t> enqueued_{0};
  std::atomic<Segment*> spare_{nullptr};

  // The draining side; head_ and head_used_ belong to the thread that holds `draining_`.
  alignas(64) std::atomic<bool> draining_{false};
  std::atomic<std::thread::id> drainer_{};  // the thread that holds `draining_`, none while nobody does
  std::atomic<std::uint64_t> completed_{0};
  std::atomic<std::uint32_t> sleepers_{0};
  Segment* head_ = nullptr;
  std::size_t head_used_ = 0;
  std::atomic<bool> failed_{false};  // `failure_` is set
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
  std::uint64_t failed_at_ = 0;  // number of the task that threw it
  std::array<Report, reports_kept> reports_{};
  std::atomic<std::uint64_t> report_count_{0};  // changed with failure_mutex_ held

  // Used by HostWorkers: membership in its two lists.
  std::atomic<bool> called_{false};
  std::atomic<bool> deferred_{false};
  HostStream* next_called_ = nullptr;
  HostStream* next_deferred_ = nullptr;
  std::uint64_t completed_at_last_tick_ = 0;
};

/// A counted reference to a stream, which keeps it alive while an event, a worker or a queue needs it.
class HostStreamPtr {
 public:
  HostStreamPtr() = default;
  explicit HostStreamPtr(HostStream& stream) noexcept : stream_(&stream) { stream.add_reference(); }
  HostStreamPtr(HostStreamPtr&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  HostStreamPtr& operator=(HostStreamPtr&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~HostStreamPtr() {
    if (stream_ != nullptr) stream_->drop_reference();
  }
  /// Takes ownership of a reference that is already counted.
  [[nodiscard]] static HostStreamPtr adopt(HostStream* stream) noexcept {
    HostStreamPtr result;
    result.stream_ = stream;
    return result;
  }

  [[nodiscard]] HostStream* get() const noexcept { return stream_; }
  [[nodiscard]] HostStream* release() noexcept { return std::exchange(stream_, nullptr); }
  [[nodiscard]] HostStream* operator->() const noexcept { return stream_; }

 private:
  HostStream* stream_ = nullptr;
};

}  // namespace tandem
