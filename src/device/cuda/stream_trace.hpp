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

/// Times ranges of streams by events, and tells them in CLOCK_MONOTONIC. All calls with the device's context current.
///
/// An event's time is known only against another event's, in a float of milliseconds. So each collection takes a
/// reference, an event and the clock at the same moment, and counts back from it: the float then covers the time since
/// the last collection and not since the start. Two references far apart correct the rate of the GPU's clock.
class StreamTrace {
 public:
  explicit StreamTrace(int device);
  StreamTrace(const StreamTrace&) = delete;
  StreamTrace& operator=(const StreamTrace&) = delete;

  /// Opens a range on `stream`, and an NVTX range on this thread. A captured stream's ranges have no time of their own,
  /// since they run at each replay: they show in NVTX alone.
  void begin(Trace& trace, cudaStream_t stream, const char* name, TraceKind kind);
  /// Called by destructors: a range whose end cannot be marked is dropped, and the stream's next checked call tells
  /// why.
  void end(cudaStream_t stream) noexcept;
  /// Waits for the ranges that have ended, and adds them to `trace`.
  void collect(Trace& trace);
  /// The stream is about to go. Its ended ranges stay.
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
