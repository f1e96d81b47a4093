// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <type_traits>

#include "tandem/base/export.hpp"
#include "tandem/device/stream.hpp"

namespace tandem {

/// A point in a stream that other streams, or the host, can wait for. An event never recorded counts as passed. It
/// keeps its device alive, and needs the stream no longer than `record`.
class TANDEM_API Event {
 public:
  enum class Timing : bool { off, on };

  explicit Event(Device& device, Timing timing = Timing::off);
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  /// Marks the end of what is queued on `stream` now; forgets an earlier mark.
  void record(StreamRef stream);
  /// Work queued on `stream` from now on starts after the mark.
  void hold(StreamRef stream) const;
  /// True if the mark has been passed.
  [[nodiscard]] bool query() const;
  /// Waits on the host until the mark has been passed.
  void synchronize() const;
  /// Milliseconds from `begin`'s mark to this one; both were made with Timing::on and have been passed.
  [[nodiscard]] double elapsed_since(const Event& begin) const;
  /// The device's own handle: a cudaEvent_t on CUDA.
  [[nodiscard]] void* native_handle() const noexcept { return handle_; }

 private:
  std::shared_ptr<Device> device_;
  void* handle_;
};

static_assert(!std::is_copy_constructible_v<Event> && std::is_nothrow_move_constructible_v<Event>);

/// Work queued on `later` from now on starts after everything queued on `earlier` until now; `event` is the mark
/// that is recorded for it, and may be used again as soon as this returns.
TANDEM_API void order_after(StreamRef later, StreamRef earlier, Event& event);

}  // namespace tandem
