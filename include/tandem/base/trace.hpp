// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"

namespace tandem {

/// What a traced range spends its time on; sets its color in the timeline.
enum class TraceKind : std::uint8_t {
  compute,
  communication,  ///< copies: on a GPU, its copy engines
  exchange,       ///< communication by the compute cores: kernels that read or write peers' memory
  wait,
  other
};

[[nodiscard]] TANDEM_API const char* name(TraceKind kind) noexcept;

/// An interval on one of a rank's tracks. Times are nanoseconds of CLOCK_MONOTONIC, which all processes of a node
/// share.
struct TraceEvent {
  std::string name;
  TraceKind kind = TraceKind::other;
  std::uint64_t track = 0;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

/// One rank's record of what ran when. Off by default; each range then costs one branch. Thread-safe.
class TANDEM_API Trace {
 public:
  [[nodiscard]] bool enabled() const noexcept { return enabled_.load(std::memory_order_relaxed); }
  void enable(bool on) noexcept { enabled_.store(on, std::memory_order_relaxed); }

  /// Sets a track's name in the timeline; without one, the timeline shows its number.
  void name_track(std::uint64_t track, std::string name);
  /// Stores the event even if the trace is not enabled: the caller checks `enabled` first.
  void add(TraceEvent event);
  /// All events, in the order in which they were added.
  [[nodiscard]] std::vector<TraceEvent> events() const;
  /// Discards the events; keeps the tracks' names.
  void clear();

  /// This rank's events as the comma-separated members of a Chrome trace's "traceEvents" array (pid = rank, tid =
  /// track).
  [[nodiscard]] std::string chrome_events(int rank) const;

  /// A complete Chrome trace, for ui.perfetto.dev, made from the `chrome_events` of any number of ranks.
  [[nodiscard]] static std::string chrome_document(const std::vector<std::string>& ranks,
                                                   const std::string& label = "");

  /// The current time of CLOCK_MONOTONIC, in nanoseconds.
  [[nodiscard]] static std::int64_t now_ns() noexcept;

 private:
  std::atomic<bool> enabled_{false};
  mutable std::mutex mutex_;
  std::vector<TraceEvent> events_;
  std::map<std::uint64_t, std::string> tracks_;
};
static_assert(Pinned<Trace>);

}  // namespace tandem
