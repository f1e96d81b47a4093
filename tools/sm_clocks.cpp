// SPDX-License-Identifier: Apache-2.0
#include "tools/sm_clocks.hpp"

#include <algorithm>
#include <vector>

#include "tandem/device/device.hpp"

#include "base/format.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {

SmClocks::SmClocks(const Team& team) : team_(team) {
  const DeviceId device = team.device().id();
  if (device.type == DeviceType::cuda) clock_ = std::make_unique<const GpuClock>(device.index);
}

void SmClocks::widen(std::optional<Range>& range, const Range& by) {
  if (!range) {
    range = by;
    return;
  }
  range->least = std::min(range->least, by.least);
  range->greatest = std::max(range->greatest, by.greatest);
  range->limit = std::min(range->limit, by.limit);
}

void SmClocks::sample() {
  if (!clock_) return;
  if (const auto now = clock_->read()) widen(read_, {.least = now->mhz, .greatest = now->mhz, .limit = now->most_mhz});
}

void SmClocks::add_to(nlohmann::ordered_json& row) {
  if (!clock_) return;
  std::vector<double> mine;
  if (read_) mine = {double(read_->least), double(read_->greatest), double(read_->limit)};
  read_.reset();
  std::optional<Range> all;
  for (const std::vector<double>& rank : gather_numbers(team_, mine)) {
    if (rank.empty()) continue;
    widen(all, {.least = static_cast<int>(rank[0]),
                .greatest = static_cast<int>(rank[1]),
                .limit = static_cast<int>(rank[2])});
  }
  row["sm_mhz"] = all ? nlohmann::ordered_json(all->least) : nlohmann::ordered_json();
  if (all) widen(rows_, *all);
}

void SmClocks::add_to(Report& report) const {
  if (!clock_) return;
  report.comment(
      rows_ ? format("SM clocks            : {} to {} MHz, of {} at most", rows_->least, rows_->greatest, rows_->limit)
            : "SM clocks            : NVML does not tell");
}

}  // namespace tandem::tools
