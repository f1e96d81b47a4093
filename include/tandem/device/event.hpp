// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"
#include "tandem/device/stream.hpp"

namespace tandem {

/// A point in a stream that other streams, or the host, can wait for. An event that was never recorded is complete. It
/// keeps its device alive; the stream may be destroyed after `record`. One that was moved from throws InvalidArgument.
class TANDEM_API Event {
 public:
  enum class Timing : bool { off, on };

  explicit Event(Device& device, Timing timing = Timing::off);
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  /// Captures the work queued on `stream` so far; replaces an earlier `record`.
  void record(StreamRef stream);
  /// Work queued on `stream` from now on starts after the recorded work. On the host it fails if that has failed, and
  /// `stream` throws the same exception.
  void wait(StreamRef stream) const;
  /// True if the recorded work has completed.
  [[nodiscard]] bool query() const;
  /// Blocks the host until the recorded work has completed, or failed: the stream's `synchronize` tells which.
  void synchronize() const;
  /// Milliseconds from `begin` to this event; both must have been made with Timing::on, and be recorded and complete
  /// (InvalidArgument).
  [[nodiscard]] double elapsed_since(const Event& begin) const;
  /// The device's own handle: a cudaEvent_t on CUDA.
  [[nodiscard]] void* native_handle() const noexcept { return handle_; }

 private:
  [[nodiscard]] Device& device() const;

  std::shared_ptr<Device> device_;  // null once moved from
  void* handle_;
};
static_assert(Owner<Event>);

/// Work queued on `later` from now on starts after everything queued on `earlier` so far. `event` is recorded for this,
/// and may be reused as soon as this returns.
TANDEM_API void order_after(StreamRef later, StreamRef earlier, Event& event);

}  // namespace tandem
