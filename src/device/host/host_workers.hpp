// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "device/host/host_stream.hpp"

namespace tandem {

/// The threads that drain a device's streams: as many as there are streams with work at once, none before the first
/// task (so a process may fork until then), asleep while there is nothing to do.
///
/// Waking a thread costs a system call and disturbs a core, and most small work is drained by the thread that queued it
/// and then synchronises. So light tasks call no worker. They put their stream on a list, and a pacemaker, which ticks
/// only while there is such work, calls a worker for each stream that made no progress between two ticks.
class HostWorkers {
 public:
  HostWorkers() = default;
  HostWorkers(const HostWorkers&) = delete;
  HostWorkers& operator=(const HostWorkers&) = delete;
  /// Joins all threads; every stream has been drained and destroyed.
  ~HostWorkers();

  /// Makes the pacemaker and one worker, once. Throws DeviceError if the system gives no thread.
  void start() {
    if (!started_.load(std::memory_order_acquire)) start_once();
  }
  /// A worker drains `stream` as soon as it can.
  void call(HostStream& stream) noexcept;
  /// A worker drains `stream` after a tick or two, if nobody else has by then; the longer nobody needed that, the
  /// later.
  void call_later(HostStream& stream) noexcept;

  /// Streams that exist, for `Device::synchronize`.
  void remember(HostStream& stream);
  void forget(HostStream& stream) noexcept;
  [[nodiscard]] std::vector<HostStreamPtr> streams();

 private:
  void start_once();
  void work() noexcept;
  void keep_pace() noexcept;
  [[nodiscard]] HostStream* tick(HostStream* watched) noexcept;
  [[nodiscard]] bool keep_watching(HostStream& stream) noexcept;

  std::atomic<bool> started_{false};
  std::atomic<bool> stop_{false};

  std::mutex mutex_;  // guards what follows
  std::condition_variable work_ready_;
  HostStream* first_called_ = nullptr;
  HostStream* last_called_ = nullptr;
  std::size_t called_count_ = 0;
  std::size_t idle_ = 0;
  std::vector<std::thread> threads_;

  std::thread pacemaker_;
  std::atomic<HostStream*> deferred_{nullptr};
  std::atomic<std::uint32_t> pacemaker_sleeps_{0};
  bool called_in_tick_ = false;  // the pacemaker's own

  std::mutex streams_mutex_;
  std::vector<HostStream*> streams_;
};

}  // namespace tandem
