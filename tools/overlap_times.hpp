// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/timing.hpp"

namespace tandem::tools {

/// Seconds, medians over iterations of the slowest rank.
struct OverlapTimes {
  double gemm = 0;
  double comm = 0;
  double sequence = 0;
  double overlap = 0;
  double overlap_p99 = 0;
  double copy = 0;       ///< to one peer (PeerCopy), if that was measured
  double wire = 0;       ///< what the communication's bytes take at that copy's rate
  bool overlaps = true;  ///< false: `overlap` is the sequence once more

  [[nodiscard]] double ideal() const { return std::max(gemm, comm); }
  [[nodiscard]] double wire_ideal() const { return std::max(gemm, wire); }
  [[nodiscard]] double exposed() const { return overlap - ideal(); }
  /// Of what could be hidden, how much was; 0 where there was nothing.
  [[nodiscard]] double hidden() const {
    const double most = std::min(gemm, comm);
    return most > 0 ? (sequence - overlap) / most : 0;
  }
};

/// What is compared: compute and communication alone, one after the other, and one beside the other.
struct OverlapRuns {
  QueuedRuns gemm;
  QueuedRuns comm;
  QueuedRuns sequence;
  QueuedRuns overlap;
  std::optional<QueuedRuns> copy{};  ///< to one peer
};

/// Collective. Times all of them in turns.
[[nodiscard]] OverlapTimes measure_overlap(const OverlapRuns& runs, Timing& timing, const Repetitions& repetitions);

/// How tables show them: the names of the columns, and their units.
[[nodiscard]] std::string overlap_columns(bool stats);
[[nodiscard]] std::string overlap_units(bool stats);
/// Adds them to a row; no times where `wrong` elements speak against them.
void add_times(nlohmann::ordered_json& values, std::string& line, const OverlapTimes& times, std::int64_t wrong,
               bool stats);
/// Adds what the wire would take to a row, in the same way; and says it.
[[nodiscard]] std::string add_wire(nlohmann::ordered_json& values, const OverlapTimes& times, std::int64_t wrong);

}  // namespace tandem::tools
