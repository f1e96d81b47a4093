// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/stream_trace.hpp"

#include <exception>
#include <limits>
#include <nvtx3/nvToolsExt.h>
#include <utility>

#include "base/format.hpp"
#include "device/cuda/capture.hpp"
#include "device/cuda/check.hpp"

namespace tandem::cuda {
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t tandem = nvtxDomainCreateA("tandem");
  return tandem;
}

double elapsed_ns(cudaEvent_t from, cudaEvent_t to) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, from, to), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e6;
}

}  // namespace

StreamTrace::StreamTrace(int device) : device_(device) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  reference_stream_.reset(stream);
  first_ = take_reference();
}

StreamTrace::OwnedEvent StreamTrace::event() {
  if (!free_.empty()) {
    OwnedEvent reused = std::move(free_.back());
    free_.pop_back();
    return reused;
  }
  cudaEvent_t made = nullptr;
  check(cudaEventCreate(&made), "cudaEventCreate");
  return OwnedEvent(made);
}

StreamTrace::Reference StreamTrace::take_reference() {
  // The event happens between the two clock readings; of several tries, the one with the least time between is best.
  Reference best{event(), 0};
  std::int64_t best_window = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 8; ++i) {
    OwnedEvent tried = event();
    const std::int64_t before = Trace::now_ns();
    check(cudaEventRecord(tried.get(), reference_stream_.get()), "cudaEventRecord");
    check(cudaEventSynchronize(tried.get()), "cudaEventSynchronize");
    const std::int64_t window = Trace::now_ns() - before;
    if (window < best_window) {
      best_window = window;
      best.clock_ns = before + window / 2;
      std::swap(best.event, tried);
    }
    free_.push_back(std::move(tried));
  }
  return best;
}

StreamTrace::Track& StreamTrace::track(Trace& trace, cudaStream_t stream) {
  const auto found = tracks_.find(stream);
  if (found != tracks_.end()) return found->second;
  int priority = 0;
  check(cudaStreamGetPriority(stream, &priority), "cudaStreamGetPriority");
  const std::uint64_t number = next_track_++;
  trace.name_track(number, format("cuda:{} stream {}{}", device_, number, priority < 0 ? " (high priority)" : ""));
  return tracks_.emplace(stream, Track{number, {}}).first->second;
}

void StreamTrace::begin(Trace& trace, cudaStream_t stream, const char* name, TraceKind kind) {
  const bool captured = capture_of(stream).graph != nullptr;
  const std::lock_guard lock(mutex_);
  Track& on = track(trace, stream);
  Range range{name, kind, on.number, nullptr, nullptr};
  if (!captured) {
    range.begin = event();
    check(cudaEventRecord(range.begin.get(), stream), "cudaEventRecord");
  }
  on.open.push_back(std::move(range));
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &attributes);
}

void StreamTrace::end(cudaStream_t stream) noexcept {
  nvtxDomainRangePop(domain());
  const std::lock_guard lock(mutex_);
  const auto found = tracks_.find(stream);
  if (found == tracks_.end() || found->second.open.empty()) return;
  Range range = std::move(found->second.open.back());
  found->second.open.pop_back();
  if (range.begin == nullptr) return;
  try {
    range.end = event();
    check(cudaEventRecord(range.end.get(), stream), "cudaEventRecord");
    ended_.push_back(std::move(range));
  } catch (const std::exception&) {  // dropped
  }
}

void StreamTrace::collect(Trace& trace) {
  std::vector<Range> ended;
  {
    const std::lock_guard lock(mutex_);
    ended.swap(ended_);
  }
  // Not under the lock, so that other threads can trace while this one waits.
  for (const Range& range : ended) check(cudaEventSynchronize(range.end.get()), "cudaEventSynchronize");
  const std::lock_guard lock(mutex_);
  Reference now = take_reference();
  const double clock_span = static_cast<double>(now.clock_ns - first_.clock_ns);
  const double device_span = elapsed_ns(first_.event.get(), now.event.get());
  // Below one second, the jitter of the clock readings exceeds the drift.
  const double rate = device_span > 1e9 ? clock_span / device_span : 1.0;
  // Both ends are converted with the same reference, so that nested ranges stay nested after rounding.
  const auto at = [&](const OwnedEvent& event) {
    return now.clock_ns - static_cast<std::int64_t>(elapsed_ns(event.get(), now.event.get()) * rate);
  };
  for (Range& range : ended) {
    trace.add({range.name, range.kind, range.track, at(range.begin), at(range.end)});
    free_.push_back(std::move(range.begin));
    free_.push_back(std::move(range.end));
  }
  free_.push_back(std::move(now.event));
}

void StreamTrace::forget(cudaStream_t stream) noexcept {
  const std::lock_guard lock(mutex_);
  tracks_.erase(stream);
}

}  // namespace tandem::cuda
