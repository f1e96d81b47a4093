// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "tandem/device/event.hpp"

#include "device/host/host_stream.hpp"
#include "device/host/spin_lock.hpp"

namespace tandem {

/// What an Event is on the host: a stream and the number of the last task queued there when it was recorded.
class HostEvent {
 public:
  explicit HostEvent(Event::Timing timing) : timing_(timing) {}

  void record(HostStream& stream);
  void wait(HostStream& stream);
  [[nodiscard]] bool query();
  void synchronize();
  /// Throws InvalidArgument unless both were made with Timing::on, and are recorded and complete.
  [[nodiscard]] double elapsed_ms_since(HostEvent& begin);

 private:
  struct Mark {
    HostStreamPtr stream;  // null: never recorded, or already passed then, on a stream without a failure
    std::uint64_t ticket = 0;
  };
  /// The current mark, which recording again does not change. Empty if it has been passed and its stream has no failure
  /// to pass on.
  [[nodiscard]] Mark mark();
  [[nodiscard]] std::int64_t passed_at_ns();

  const Event::Timing timing_;
  SpinLock lock_;
  Mark mark_;
  std::atomic<const HostStream*> marked_{nullptr};        // mark_.stream, to compare without the lock
  std::shared_ptr<std::atomic<std::int64_t>> passed_at_;  // shared with the task that sets it; 0: it has not run yet
};

}  // namespace tandem
