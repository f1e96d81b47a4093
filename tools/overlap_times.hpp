// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/timing.hpp"

namespace tandem::tools {

/// Seconds; medians over iterations of the slowest rank's time.
struct OverlapTimes {
  double gemm = 0;
  double comm = 0;
  double sequence = 0;
  double overlap = 0;
  double overlap_p99 = 0;
  double copy = 0;       ///< of a copy to one peer (PeerCopy), if measured
  double wire = 0;       ///< time of the communication's bytes at that copy's rate
  bool overlaps = true;  ///< false: `overlap` ran the sequence, too

  [[nodiscard]] double ideal() const { return std::max(gemm, comm); }
  [[nodiscard]] double wire_ideal() const { return std::max(gemm, wire); }
  [[nodiscard]] double exposed() const { return overlap - ideal(); }
  /// The fraction of the shorter part's time that was hidden; 0 if it took no time.
  [[nodiscard]] double hidden() const {
    const double most = std::min(gemm, comm);
    return most > 0 ? (sequence - overlap) / most : 0;
  }
};

/// The runs to compare: compute and communication alone, in sequence, and overlapped.
struct OverlapRuns {
  QueuedRuns gemm;
  QueuedRuns comm;
  QueuedRuns sequence;
  QueuedRuns overlap;
  std::optional<QueuedRuns> copy{};  ///< to one peer
};

/// Collective. Times all of them in turns.
[[nodiscard]] OverlapTimes measure_overlap(const OverlapRuns& runs, Timing& timing, const Repetitions& repetitions);

/// The columns' names and units in tables.
[[nodiscard]] std::string overlap_columns(bool stats);
[[nodiscard]] std::string overlap_units(bool stats);
/// Adds the times to a row; if elements were `wrong`, without values.
void add_times(nlohmann::ordered_json& values, std::string& line, const OverlapTimes& times, std::int64_t wrong,
               bool stats);
/// Adds --wire's times to a row, without values if elements were `wrong`; returns them as text.
[[nodiscard]] std::string add_wire(nlohmann::ordered_json& values, const OverlapTimes& times, std::int64_t wrong);

}  // namespace tandem::tools
