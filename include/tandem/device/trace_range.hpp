// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/base/concepts.hpp"
#include "tandem/device/device.hpp"

namespace tandem {

/// Shows the work queued on `stream` during its lifetime as one range of the trace. Costs one branch when the trace is
/// off. `name` must outlive the device (use a literal). Ranges of one stream nest.
class TraceRange {
 public:
  [[nodiscard]] TraceRange(Device& device, StreamRef stream, const char* name, TraceKind kind)
      : device_(device), stream_(stream) {
    if (device.trace().enabled()) {
      device.trace_begin(stream, name, kind);
      open_ = true;
    }
  }
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;
  ~TraceRange() {
    if (open_) device_.trace_end(stream_);
  }

 private:
  Device& device_;
  StreamRef stream_;
  bool open_ = false;
};
static_assert(Pinned<TraceRange>);

}  // namespace tandem
