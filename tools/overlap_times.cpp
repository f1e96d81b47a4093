// SPDX-License-Identifier: Apache-2.0
#include "tools/overlap_times.hpp"

#include <array>
#include <vector>

#include "base/format.hpp"
#include "tools/bench.hpp"

namespace tandem::tools {

OverlapTimes measure_overlap(const OverlapRuns& runs, Timing& timing, const Repetitions& repetitions) {
  const std::array<QueuedRuns, 4> all{runs.gemm, runs.comm, runs.sequence, runs.overlap};
  const std::vector<std::vector<double>> taken = timing.repeated(all, repetitions);
  return {.gemm = median(taken[0]),
          .comm = median(taken[1]),
          .sequence = median(taken[2]),
          .overlap = median(taken[3]),
          .overlap_p99 = percentile(taken[3], 99)};
}

std::string overlap_columns(bool stats) {
  return format(" {:>9} {:>9} {:>9} {:>9}{} {:>9} {:>7} {:>9} {:>7}", "t_gemm", "t_comm", "t_seq", "t_overlap",
                stats ? "       p99" : "", "T_ideal", "T_i/t_o", "exposed", "hidden");
}

std::string overlap_units(bool stats) {
  return format(" {:>9} {:>9} {:>9} {:>9}{} {:>9} {:>7} {:>9} {:>7}", "(us)", "(us)", "(us)", "(us)",
                stats ? "      (us)" : "", "(us)", "", "(us)", "(%)");
}

void add_times(nlohmann::ordered_json& values, std::string& line, const OverlapTimes& times, std::int64_t wrong,
               bool stats) {
  const auto add = [&](const char* key, double value, const std::string& text, int width) {
    values[key] = wrong == 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
    line += format(" {:>{}}", wrong == 0 ? text : "-", width);
  };
  const auto add_time = [&](const char* key, double seconds) { add(key, seconds * 1e6, time_text(seconds * 1e6), 9); };
  add_time("t_gemm_us", times.gemm);
  add_time("t_comm_us", times.comm);
  add_time("t_seq_us", times.sequence);
  add_time("t_overlap_us", times.overlap);
  if (stats) add_time("t_overlap_p99_us", times.overlap_p99);
  add_time("t_ideal_us", times.ideal());
  const double efficiency = times.overlap > 0 ? times.ideal() / times.overlap : 0;
  add("ideal_over_overlap", efficiency, format("{:.3f}", efficiency), 7);
  add_time("exposed_us", times.exposed());
  add("hidden_percent", times.hidden() * 100, format("{:.1f}", times.hidden() * 100), 7);
}

}  // namespace tandem::tools
