// SPDX-License-Identifier: Apache-2.0
#include "tools/overlap_times.hpp"

#include <vector>

#include "base/format.hpp"
#include "tools/bench.hpp"

namespace tandem::tools {

OverlapTimes measure_overlap(const OverlapRuns& runs, Timing& timing, const Repetitions& repetitions) {
  std::vector<QueuedRuns> all{runs.gemm, runs.comm, runs.sequence, runs.overlap};
  if (runs.copy) all.push_back(*runs.copy);
  const std::vector<std::vector<double>> taken = timing.repeated(all, repetitions);
  return {.gemm = median(taken[0]),
          .comm = median(taken[1]),
          .sequence = median(taken[2]),
          .overlap = median(taken[3]),
          .overlap_p99 = percentile(taken[3], 99),
          .copy = runs.copy ? median(taken[4]) : 0};
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
  const auto add = [&](const char* key, double value, const std::string& text, int width, bool known = true) {
    values[key] = known && wrong == 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
    line += format(" {:>{}}", known && wrong == 0 ? text : "-", width);
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
  // For a sequence it would only be noise.
  add("hidden_percent", times.hidden() * 100, format("{:.1f}", times.hidden() * 100), 7, times.overlaps);
}

std::string add_wire(nlohmann::ordered_json& values, const OverlapTimes& times, std::int64_t wrong) {
  const auto add = [&](const char* key, double value) {
    values[key] = wrong == 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
  };
  const double efficiency = times.overlap > 0 ? times.wire_ideal() / times.overlap : 0;
  add("t_copy_us", times.copy * 1e6);
  add("t_wire_us", times.wire * 1e6);
  add("wire_ideal_over_overlap", efficiency);
  if (wrong != 0) return "no times of what is wrong";
  return format("a copy to one peer takes {} us; at its rate t_wire is {}, and max(t_gemm, t_wire) / t_overlap {:.3f}",
                time_text(times.copy * 1e6), time_text(times.wire * 1e6), efficiency);
}

}  // namespace tandem::tools
