// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>

#include "tandem/device/device.hpp"

#include "base/format.hpp"
#include "support/oracle.hpp"
#include "tools/bench.hpp"
#include "tools/corruption.hpp"
#include "tools/linear_problem.hpp"
#include "tools/linear_times.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {
namespace {

/// Up to `most` numbers from [range), evenly spread and with both ends.
std::vector<std::int64_t> spread(const RowRange& range, std::int64_t most) {
  const std::int64_t count = std::min(range.count, most);
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    numbers.push_back(range.begin + (count == 1 ? 0 : i * (range.count - 1) / (count - 1)));
  }
  return numbers;
}

constexpr std::int64_t sampled_lines = 64;

LinearProblem problem_of(const BenchOptions& options, const Shape& shape, int ranks) {
  return {.kind = linear_kind(options.operation),
          .shape = shape,
          .ranks = ranks,
          .dtype = *options.dtype,
          .key = options.seed};
}

/// Whether every element of a rank's output is compared: for small outputs only, since an fp64 product takes its time.
bool is_checked_whole(const LinearProblem& problem, int rank) {
  constexpr std::int64_t small = 1 << 24;  // multiplications
  const LinearProblem::Block block = problem.output(rank);
  const std::int64_t depth = problem.is_gradient() ? problem.shape.m : problem.shape.k;
  return block.elements() == 0 || depth <= small / block.elements();
}

/// How many elements of this rank's output are wrong: all of them for small outputs, else a grid of rows and columns
/// that meets every rank's part; and everywhere, that something was written.
std::int64_t wrong_here(std::span<const std::byte> result, const LinearProblem& problem, int rank) {
  const LinearProblem::Block block = problem.output(rank);
  const bool whole = is_checked_whole(problem, rank);
  const auto rows = spread(block.rows, whole ? block.rows.count : sampled_lines);
  const auto columns = spread(block.columns, whole ? block.columns.count : sampled_lines);

  const DType dtype = problem.output_dtype();
  const std::size_t element = size_of(dtype);
  std::vector<std::byte> picked;
  for (const std::int64_t row : rows) {
    for (const std::int64_t column : columns) {
      const std::int64_t at = (row - block.rows.begin) * block.columns.count + column - block.columns.begin;
      const auto from = result.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(at) * element);
      picked.insert(picked.end(), from, from + static_cast<std::ptrdiff_t>(element));
    }
  }
  std::int64_t wrong = testing::compare(problem.expected(rows, columns), picked.data()).wrong;
  if (!whole) {
    // Poison is all ones: a NaN that no sum gives.
    const std::vector<std::byte> poison(element, std::byte{0xff});
    for (std::size_t at = 0; at < result.size(); at += element) {
      if (std::memcmp(result.data() + at, poison.data(), element) == 0) ++wrong;
    }
  }
  return wrong;
}

class LinearBench {
 public:
  LinearBench(const World& world, const BenchOptions& options)
      : world_(world), options_(options), stream_(world.device()), timing_(world.team(), stream_, options.blocking) {}

  void measure(const Shape& shape, Report& report) {
    const Team& team = world_.team();
    const LinearProblem problem = problem_of(options_, shape, team.size());
    LinearRun run(team, problem);
    LinearPlanOfAnyKind overlap(team, problem, {.algorithm = options_.algorithm, .groups = options_.groups});
    LinearPlanOfAnyKind sequence(team, problem, {.algorithm = "sequence", .groups = std::nullopt});
    std::int64_t wrong = wrong_of_a_run(overlap, run, problem, false) + wrong_of_a_run(sequence, run, problem, false);
    LinearTimes times;
    if (wrong == 0) {
      times =
          measure_linear(team, problem, run, overlap, sequence, timing_, stream_, options_.warmup, options_.iterations);
      wrong = wrong_of_a_run(overlap, run, problem, corrupts(world_.rank()));
    }
    wrong_ += wrong;
    add_row(report, problem, overlap, times, wrong);
    if (!options_.timeline.empty()) trace_one_run(team, stream_, [&] { run(overlap, stream_); });
  }
  [[nodiscard]] std::int64_t wrong() const noexcept { return wrong_; }

 private:
  /// Runs it once over poison, so that no earlier run's result can be taken for this one's.
  [[nodiscard]] std::int64_t wrong_of_a_run(LinearPlanOfAnyKind& plan, LinearRun& run, const LinearProblem& problem,
                                            bool corrupted) const {
    const Team& team = world_.team();
    run.reset_output();
    team.barrier();
    run(plan, stream_);
    team.synchronize(stream_);
    std::vector<std::byte> result = run.result();
    if (corrupted) corrupt(result, problem.output_dtype());
    return count_over_ranks(team, wrong_here(result, problem, team.rank()));
  }

  void add_row(Report& report, const LinearProblem& problem, const LinearPlanOfAnyKind& plan, const LinearTimes& times,
               std::int64_t wrong) const {
    const LinearChoice& choice = plan.choice();
    const std::string algorithm =
        choice.groups > 0 ? format("{}/{}", choice.algorithm, choice.groups) : choice.algorithm;
    nlohmann::ordered_json values{{"m", problem.shape.m},
                                  {"n", problem.shape.n},
                                  {"k", problem.shape.k},
                                  {"type", name(problem.dtype)},
                                  {"algorithm", choice.algorithm},
                                  {"groups", choice.groups},
                                  {"why", choice.why},
                                  {"checked", is_checked_whole(problem, 0) ? "all" : "sample"},
                                  {"wrong", wrong}};
    std::string line = format("{:>8} {:>7} {:>7} {:>5} {:>11} {:>6}", problem.shape.m, problem.shape.n, problem.shape.k,
                              name(problem.dtype), algorithm, wrong);
    const auto add = [&](const char* key, double value, const std::string& text, int width) {
      values[key] = wrong == 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
      line += format(" {:>{}}", wrong == 0 ? text : "-", width);
    };
    const auto add_time = [&](const char* key, double seconds) {
      add(key, seconds * 1e6, time_text(seconds * 1e6), 9);
    };
    add_time("t_gemm_us", times.gemm);
    add_time("t_comm_us", times.comm);
    add_time("t_seq_us", times.sequence);
    add_time("t_overlap_us", times.overlap);
    if (options_.stats) add_time("t_overlap_p99_us", times.overlap_p99);
    add_time("t_ideal_us", times.ideal());
    const double efficiency = times.overlap > 0 ? times.ideal() / times.overlap : 0;
    add("ideal_over_overlap", efficiency, format("{:.3f}", efficiency), 7);
    add_time("exposed_us", times.exposed());
    add("hidden_percent", times.hidden() * 100, format("{:.1f}", times.hidden() * 100), 7);
    values["predicted_sequence_us"] = choice.predicted.t_sequence * 1e6;
    values["predicted_pipeline_us"] = choice.predicted.t_pipeline * 1e6;
    values["predicted_direct_us"] = choice.predicted.t_direct * 1e6;
    report.row(values, line);
  }

  const World& world_;
  const BenchOptions& options_;
  Stream stream_;
  Timing timing_;
  std::int64_t wrong_ = 0;
};

void print_header(Report& report, bool sampled, bool stats) {
  if (sampled) {
    report.comment(
        format("#wrong of large shapes is out of a sample: {0} x {0} elements of each rank's output", sampled_lines));
  }
  report.comment("");
  report.comment(format("{:>6} {:>7} {:>7} {:>5} {:>11} {:>6} {:>9} {:>9} {:>9} {:>9}{} {:>9} {:>7} {:>9} {:>7}", "M",
                        "N", "K", "type", "algorithm", "#wrong", "t_gemm", "t_comm", "t_seq", "t_overlap",
                        stats ? "       p99" : "", "T_ideal", "T_i/t_o", "exposed", "hidden"));
  report.comment(format("{:>6} {:>7} {:>7} {:>5} {:>11} {:>6} {:>9} {:>9} {:>9} {:>9}{} {:>9} {:>7} {:>9} {:>7}", "",
                        "", "", "", "/groups", "", "(us)", "(us)", "(us)", "(us)", stats ? "      (us)" : "", "(us)",
                        "", "(us)", "(%)"));
}

}  // namespace

int bench_linear(const World& world, const BenchOptions& given) {
  BenchOptions options = given;
  const bool cuda = world.device().id().type == DeviceType::cuda;
  options.dtype = given.dtype.value_or(cuda ? bf16 : f32);
  if (options.shapes.empty()) options.shapes.push_back(cuda ? Shape{8192, 10240, 8192} : Shape{512, 1024, 1024});

  Report report(world,
                format("tandem bench {}: {} iterations, {} for warm-up, {}", name(options.operation),
                       options.iterations, options.warmup, setting(world)),
                options.report);
  report.set("operation", name(options.operation));
  const bool sampled = std::ranges::any_of(options.shapes, [&](const Shape& shape) {
    return !is_checked_whole(problem_of(options, shape, world.size()), 0);
  });
  print_header(report, sampled, options.stats);
  LinearBench bench(world, options);
  for (const Shape& shape : options.shapes) bench.measure(shape, report);
  report.set("wrong", bench.wrong());
  if (!options.timeline.empty()) write_timeline(world, options.timeline);
  report.finish();
  return bench.wrong() == 0 || world.rank() != 0 ? success : failure;
}

}  // namespace tandem::tools
