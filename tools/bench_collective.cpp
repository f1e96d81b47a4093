// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tandem/device/device.hpp"

#include "base/format.hpp"
#include "tools/bench.hpp"
#include "tools/collective_check.hpp"
#include "tools/collective_run.hpp"
#include "tools/corruption.hpp"
#include "tools/peer_copy.hpp"
#include "tools/sm_clocks.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {
namespace {

/// The measurements of one form at one size.
struct Figures {
  std::string algorithm;  ///< the one that the runs used
  std::int64_t wrong = 0;
  double time = 0;  ///< seconds
  double p99 = 0;
  double copy = 0;  ///< with --wire: time of a copy to one peer, measured in turns with the runs
  double wire = 0;  ///< with --wire: time of the collective's bytes at that copy's rate
};

/// The forms to measure: out-of-place unless --in-place was given, and in-place if there is such a form.
struct Forms {
  const Form* apart = nullptr;
  const Form* in_place = nullptr;
};

Forms forms_of(const BenchOptions& options) {
  const auto pick = [&](bool in_place) {
    return form_for(options.operation, options.algorithm, !options.plain, in_place);
  };
  return {.apart = options.in_place ? nullptr : pick(false), .in_place = pick(true)};
}

nlohmann::ordered_json json_of(const Form* form) {
  return form == nullptr ? nlohmann::ordered_json() : nlohmann::ordered_json(form->name);
}

class CollectiveBench {
 public:
  CollectiveBench(const World& world, const BenchOptions& options)
      : world_(world),
        options_(options),
        stream_(world.device()),
        clocks_(world.team()),
        timing_(world.team(), stream_, options.blocking, &clocks_) {}

  [[nodiscard]] Figures measure(CollectivePlan& plan, const CollectiveProblem& problem, const Form& form) {
    const Team& team = world_.team();
    const CollectiveData data(problem, options_.seed);
    CollectiveRun run(team, problem, form);
    const auto body = [&] { run(plan, stream_); };
    const QueuedRuns runs = timing_.queued(body, options_.repetitions);
    Figures figures{.algorithm = std::string(plan.algorithm(problem.plan_count(), form))};
    // In a graph, in-place sums grow until they overflow, which hides errors: so a single run is checked, too.
    figures.wrong = wrong_elements(team, run, data, {.queue = body}, stream_, false);
    if (figures.wrong == 0 && runs.runs != 1) figures.wrong = wrong_elements(team, run, data, runs, stream_, false);
    if (figures.wrong != 0) return figures;
    std::vector<QueuedRuns> turns{runs};
    std::optional<PeerCopy> copy;
    if (options_.wire) {
      copy.emplace(team, problem);
      turns.push_back(timing_.queued([&] { (*copy)(stream_); }, options_.repetitions));
    }
    const std::vector<std::vector<double>> times = timing_.repeated(turns, options_.repetitions);
    figures.time = median(times[0]);
    figures.p99 = percentile(times[0], 99);
    if (copy) {
      figures.copy = median(times[1]);
      figures.wire = copy->wire_seconds(figures.copy);
    }
    figures.wrong = wrong_elements(team, run, data, runs, stream_, corrupts(world_.rank()));
    if (!options_.timeline.empty()) timing_.trace(body);
    return figures;
  }
  [[nodiscard]] SmClocks& clocks() noexcept { return clocks_; }

 private:
  const World& world_;
  const BenchOptions& options_;
  Stream stream_;
  SmClocks clocks_;
  Timing timing_;
};

void add_figures(nlohmann::ordered_json& values, std::string& line, const char* where, const Figures* figures,
                 double bytes, double factor, bool stats) {
  const std::string prefix(where);
  const bool speaks = figures != nullptr && figures->wrong == 0;
  const double algbw = speaks && figures->time > 0 ? bytes / figures->time * 1e-9 : 0;
  const auto set = [&values, &prefix, speaks](const char* key, double value) {
    values[prefix + key] = speaks ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
  };
  set("_time_us", speaks ? figures->time * 1e6 : 0);
  set("_p99_us", speaks ? figures->p99 * 1e6 : 0);
  set("_algbw_gbs", algbw);
  set("_busbw_gbs", algbw * factor);
  values[prefix + "_algorithm"] =
      figures == nullptr ? nlohmann::ordered_json() : nlohmann::ordered_json(figures->algorithm);
  values[prefix + "_wrong"] = figures == nullptr ? nlohmann::ordered_json() : nlohmann::ordered_json(figures->wrong);
  const std::string none = figures == nullptr ? "N/A" : "-";
  line += format(" {:>8}", speaks ? time_text(figures->time * 1e6) : none);
  if (stats) line += format(" {:>8}", speaks ? time_text(figures->p99 * 1e6) : none);
  line += speaks ? format(" {:>7.2f} {:>7.2f}", algbw, algbw * factor) : format(" {:>7} {:>7}", none, none);
  line += format(" {:>6}", figures == nullptr ? "N/A" : format("{}", figures->wrong));
}

/// Adds --wire's figures for one form to the row; returns them as text. `bus_bytes`: the bytes that busbw counts.
std::string add_wire(nlohmann::ordered_json& values, const char* where, const Figures& figures, double bus_bytes) {
  const bool speaks = figures.wrong == 0 && figures.time > 0 && figures.wire > 0;
  const double share = speaks ? figures.wire / figures.time : 0;
  const auto set = [&](const char* key, double value) {
    values[std::string(where) + key] = speaks ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
  };
  set("_copy_us", figures.copy * 1e6);
  set("_busbw_over_copy", share);
  if (!speaks) return "";
  return format("{}: a copy to one peer takes {} us, {:.2f} GB/s; busbw is {:.3f} of that rate", where,
                time_text(figures.copy * 1e6), bus_bytes / figures.wire * 1e-9, share);
}

void print_header(Report& report, bool stats) {
  const std::string extra = stats ? "         " : "";
  const std::string p99 = stats ? "      p99" : "";
  const std::string unit = stats ? "     (us)" : "";
  report.comment("");
  report.comment(format("{:55}{:>22}{}{:>32}", "", "out-of-place", extra, "in-place"));
  report.comment(format("{:>10} {:>13} {:>8} {:>7} {:>7}  {:>8}{} {:>7} {:>7} {:>6} {:>8}{} {:>7} {:>7} {:>6}  {}",
                        "size", "count", "type", "redop", "root", "time", p99, "algbw", "busbw", "#wrong", "time", p99,
                        "algbw", "busbw", "#wrong", "algorithm"));
  report.comment(format("{:>10} {:>13} {:>8} {:>7} {:>7}  {:>8}{} {:>7} {:>7} {:>6} {:>8}{} {:>7} {:>7}", "(B)",
                        "(elements)", "", "", "", "(us)", unit, "(GB/s)", "(GB/s)", "", "(us)", unit, "(GB/s)",
                        "(GB/s)"));
}

}  // namespace

std::string time_text(double microseconds) {
  if (microseconds >= 10000) return format("{:.0f}", microseconds);
  return microseconds >= 100 ? format("{:.1f}", microseconds) : format("{:.2f}", microseconds);
}

int bench_collective(const World& world, const BenchOptions& given) {
  BenchOptions options = given;
  options.dtype = given.dtype.value_or(f32);
  const Forms measured = forms_of(options);
  Report report(world,
                format("tandem bench {} (tensors: {}): algorithm {}, {}, {}", name(options.operation),
                       measured.apart == nullptr ? measured.in_place->name : measured.apart->name, options.algorithm,
                       to_string(options.repetitions), setting(world)),
                options.report);
  report.set("operation", name(options.operation));
  report.set("algorithm", options.algorithm);
  report.set("out_of_place_tensors", json_of(measured.apart));
  report.set("in_place_tensors", json_of(measured.in_place));
  print_header(report, options.stats);

  CollectiveBench bench(world, options);
  double bus_sum = 0;
  int bus_rows = 0;
  std::int64_t wrong = 0;
  for (const std::int64_t size : bench_sizes(options)) {
    report.measuring(bytes_to_string(size));
    const CollectiveProblem problem =
        sized_problem(options.operation, world.size(), size, *options.dtype, options.root);
    CollectivePlan plan(world.team(), options.operation, problem.plan_count(), problem.dtype,
                        {.algorithm = options.algorithm, .sms = options.sms});
    std::optional<Figures> apart;
    std::optional<Figures> in_place;
    if (measured.apart != nullptr) apart = bench.measure(plan, problem, *measured.apart);
    if (measured.in_place != nullptr) in_place = bench.measure(plan, problem, *measured.in_place);

    const std::int64_t whole = options.operation == Operation::all_to_all ? problem.rows * world.size() : problem.rows;
    const auto bytes = static_cast<std::int64_t>(static_cast<std::size_t>(whole) * size_of(problem.dtype));
    const bool sharded = options.operation == Operation::all_gather || options.operation == Operation::reduce_scatter;
    const std::int64_t count = sharded ? problem.rows / world.size() : problem.rows;
    const std::string redop = adds(options.operation) ? "sum" : "none";
    const int root = options.operation == Operation::broadcast ? options.root : -1;
    nlohmann::ordered_json values{
        {"size", bytes}, {"count", count}, {"type", name(problem.dtype)}, {"redop", redop}, {"root", root}};
    std::string line = format("{:>12} {:>13} {:>8} {:>7} {:>7} ", bytes, count, name(problem.dtype), redop, root);
    const double factor = bus_factor(options.operation, world.size());
    add_figures(values, line, "out_of_place", apart ? &*apart : nullptr, static_cast<double>(bytes), factor,
                options.stats);
    add_figures(values, line, "in_place", in_place ? &*in_place : nullptr, static_cast<double>(bytes), factor,
                options.stats);
    const std::string& taken = (apart ? apart : in_place)->algorithm;
    line +=
        format("  {}", apart && in_place && in_place->algorithm != taken ? taken + ", " + in_place->algorithm : taken);
    std::vector<std::string> wires;
    if (options.wire && apart)
      wires.push_back(add_wire(values, "out_of_place", *apart, factor * static_cast<double>(bytes)));
    if (options.wire && in_place)
      wires.push_back(add_wire(values, "in_place", *in_place, factor * static_cast<double>(bytes)));
    bench.clocks().add_to(values);
    report.row(values, line);
    for (const std::string& wire : wires) report.comment(wire);
    for (const auto& figures : {apart, in_place}) {
      if (!figures) continue;
      wrong += figures->wrong;
      if (figures->wrong != 0) continue;
      bus_sum += figures->time > 0 ? static_cast<double>(bytes) / figures->time * 1e-9 * factor : 0;
      ++bus_rows;
    }
  }
  const double average = bus_rows == 0 ? 0 : bus_sum / bus_rows;
  report.set("wrong", wrong);
  report.set("average_busbw_gbs", average);
  bench.clocks().add_to(report);
  report.comment(format("Out of bounds values : {} {}", wrong, wrong == 0 ? "OK" : "FAILED"));
  report.comment(format("Avg bus bandwidth    : {:.3f}", average));
  report.finish();
  write_timeline(world, options);
  return wrong == 0 || world.rank() != 0 ? success : failure;
}

}  // namespace tandem::tools
