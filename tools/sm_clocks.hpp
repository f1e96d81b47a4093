// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "tandem/device/gpu_clock.hpp"
#include "tandem/team/team.hpp"

#include "tools/report.hpp"

namespace tandem::tools {

/// At what clocks the ranks' GPUs run what is timed: a GPU that is warm, or draws all the power that it may, is slower.
class SmClocks {
 public:
  explicit SmClocks(const Team& team);

  /// Reads this rank's clock: while its GPU works.
  void sample();
  /// What all ranks have read since the last row, into a row: "sm_mhz", the least of it. Collective.
  void add_to(nlohmann::ordered_json& row);
  /// What the rows had together, and the most that the GPUs allow: a comment. Nothing on the host.
  void add_to(Report& report) const;

 private:
  struct Range {
    int least;
    int greatest;
    int limit;  ///< of the GPU that may reach the least
  };
  static void widen(std::optional<Range>& range, const Range& by);

  Team team_;
  std::unique_ptr<const GpuClock> clock_;  ///< none on the host
  std::optional<Range> read_;              ///< by this rank since the last row
  std::optional<Range> rows_;              ///< by all ranks
};

}  // namespace tandem::tools
