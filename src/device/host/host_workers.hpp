// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/host/host_stream.hpp"

namespace tandem {

/// The threads that drain a device's streams: as many as streams have had work at the same time, none before the first
/// task (so a process may fork until then), asleep while there is nothing to do.
///
/// Waking a thread costs a system call and disturbs a core, and most small work is drained by the thread that queued it
/// when that synchronizes. So light tasks call no worker, but put their stream on a list: a pacemaker thread, which
/// ticks only while there is such work, calls a worker for each stream that made no progress between two ticks.
///
/// If the system refuses a thread, the pacemaker stands in for it: it drains what no worker takes. Streams may wait for
/// one another through peers, so with two threads too few they can be stuck; their waits then end with a DeviceError.
class HostWorkers {
 public:
  HostWorkers() = default;
  HostWorkers(const HostWorkers&) = delete;
  HostWorkers& operator=(const HostWorkers&) = delete;
  /// Joins all threads. Every stream must have been drained and abandoned.
  ~HostWorkers();

  /// Starts the pacemaker and one worker, once. Throws DeviceError if the system cannot start a thread.
  void start() {
    if (!started_.load(std::memory_order_acquire)) start_once();
  }
  /// Lets a worker drain `stream` as soon as possible.
  void call(HostStream& stream) noexcept;
  /// Lets a worker drain `stream` after a tick or two, unless another thread has by then. Ticks become longer while no
  /// stream needs a worker.
  void call_later(HostStream& stream) noexcept;
  /// Asks the system again for a thread that it has refused, if a stream still needs it. For a thread that is about to
  /// sleep in a wait: the pacemaker, which asks otherwise, may be waiting, too.
  void ask_again() noexcept {
    if (refused_.load(std::memory_order_relaxed)) ask_once_more();
  }
  /// "the system gives no thread to 1 of its streams: Resource temporarily unavailable" if a stream has work that no
  /// thread can take up, or if this said so of one since `since_ns` (Trace::now_ns); empty otherwise.
  [[nodiscard]] std::string lack(std::int64_t since_ns);
  /// Why the system last refused a thread; empty if it never did.
  [[nodiscard]] std::string refusal() const;

  /// The list of existing streams, for `Device::synchronize`.
  void remember(HostStream& stream);
  void forget(HostStream& stream) noexcept;
  [[nodiscard]] std::vector<HostStreamPtr> streams();

 private:
  void start_once();
  void work() noexcept;
  // These are called with `mutex_` held.
  [[nodiscard]] bool lacks_threads() const noexcept { return called_count_ > idle_ + starting_; }
  bool add_thread() noexcept;
  void drain_first(std::unique_lock<std::mutex>& lock, StreamPriority& runs_as) noexcept;

  void ask_once_more() noexcept;
  void wake_pacemaker() noexcept;
  [[nodiscard]] HostStream* stand_in(HostStream* watched) noexcept;
  void keep_pace() noexcept;
  [[nodiscard]] HostStream* tick(HostStream* watched) noexcept;
  [[nodiscard]] bool keep_watching(HostStream& stream) noexcept;

  std::atomic<bool> started_{false};
  std::atomic<bool> stop_{false};

  std::mutex mutex_;  // guards the members up to lacked_at_ns_; the atomic ones are also read without it
  std::condition_variable work_ready_;
  HostStream* first_called_ = nullptr;
  HostStream* last_called_ = nullptr;
  std::size_t called_count_ = 0;
  std::size_t idle_ = 0;
  std::size_t starting_ = 0;  // threads that have not looked for work yet
  std::vector<std::thread> threads_;
  std::atomic<bool> refused_{false};  // a thread, and since then there have always been called streams
  std::atomic<int> refusal_{0};       // the errno of the last refusal
  std::string lack_;                  // what `lack` said last, and when
  std::int64_t lacked_at_ns_ = 0;

  std::thread pacemaker_;
  std::atomic<bool> stands_in_{false};  // the pacemaker drains a stream, so it does not tick
  std::atomic<HostStream*> deferred_{nullptr};
  std::atomic<std::uint32_t> pacemaker_sleeps_{0};
  bool called_in_tick_ = false;  // used by the pacemaker only

  std::mutex streams_mutex_;
  std::vector<HostStream*> streams_;
};

}  // namespace tandem
