// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "tandem/device/gpu_clock.hpp"
#include "tandem/team/team.hpp"

#include "tools/report.hpp"

namespace tandem::tools {

/// The clocks of the ranks' GPUs during the timed runs: a GPU that is warm, or at its power limit, is slower.
class SmClocks {
 public:
  explicit SmClocks(const Team& team);

  /// Reads this rank's clock. Call it while the GPU works.
  void sample();
  /// Adds to a row as "sm_mhz" the lowest clock that any rank has read since the last row. Collective.
  void add_to(nlohmann::ordered_json& row);
  /// Adds a comment: the range of clocks in all rows, and the highest that the GPUs allow. Nothing on the host.
  void add_to(Report& report) const;

 private:
  struct Range {
    int least;
    int greatest;
    int limit;  ///< the highest clock allowed, of the GPU for which it is lowest
  };
  static void widen(std::optional<Range>& range, const Range& by);

  Team team_;
  std::unique_ptr<const GpuClock> clock_;  ///< null on the host
  std::optional<Range> read_;              ///< by this rank since the last row
  std::optional<Range> rows_;              ///< by all ranks
};

}  // namespace tandem::tools
