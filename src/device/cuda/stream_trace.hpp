// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tandem/base/trace.hpp"

#include "device/cuda/check.hpp"

namespace tandem::cuda {

/// Times ranges of streams with events, and converts them to CLOCK_MONOTONIC. The device's context must be current.
///
/// CUDA reports only the time between two events, as a float in milliseconds. So each collection takes a reference, an
/// event and the host clock at the same moment, and counts back from it: the float then covers the time since the last
/// collection, not since the start. The first and the latest reference give the rate of the GPU's clock.
class StreamTrace {
 public:
  explicit StreamTrace(int device);
  StreamTrace(const StreamTrace&) = delete;
  StreamTrace& operator=(const StreamTrace&) = delete;

  /// Begins a range on `stream`, and an NVTX range on this thread. Ranges of a captured stream have no time, since the
  /// work runs at each replay: they appear in NVTX only.
  void begin(Trace& trace, cudaStream_t stream, const char* name, TraceKind kind);
  /// Called by destructors: a range whose end cannot be recorded is dropped; the stream's next checked call throws.
  void end(cudaStream_t stream) noexcept;
  /// Waits until the work of all ended ranges has run, and adds them to `trace`.
  void collect(Trace& trace);
  /// Called before the stream is destroyed. Its ended ranges are kept.
  void forget(cudaStream_t stream) noexcept;

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const noexcept { ignore(cudaEventDestroy(event)); }
    void operator()(cudaStream_t stream) const noexcept { ignore(cudaStreamDestroy(stream)); }
  };
  using OwnedEvent = std::unique_ptr<CUevent_st, Destroy>;
  using OwnedStream = std::unique_ptr<CUstream_st, Destroy>;

  struct Range {
    const char* name;
    TraceKind kind;
    std::uint64_t track;
    OwnedEvent begin;  // null for a captured stream
    OwnedEvent end;
  };
  struct Track {
    std::uint64_t number;
    std::vector<Range> open;
  };
  struct Reference {
    OwnedEvent event;
    std::int64_t clock_ns = 0;
  };

  [[nodiscard]] Reference take_reference();
  [[nodiscard]] OwnedEvent event();
  Track& track(Trace& trace, cudaStream_t stream);

  int device_;
  std::mutex mutex_;
  std::uint64_t next_track_ = 1;
  std::map<cudaStream_t, Track> tracks_;
  std::vector<Range> ended_;
  std::vector<OwnedEvent> free_;
  OwnedStream reference_stream_;
  Reference first_;
};

}  // namespace tandem::cuda
