// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tandem/device/device.hpp"
#include "tandem/device/h200_costs.hpp"

#include "base/format.hpp"
#include "tools/bench.hpp"
#include "tools/corruption.hpp"
#include "tools/linear_check.hpp"
#include "tools/linear_problem.hpp"
#include "tools/linear_times.hpp"
#include "tools/options.hpp"
#include "tools/sm_clocks.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {
namespace {

BenchOptions with_defaults(BenchOptions options, DeviceType device) {
  options.dtype = linear_dtype(options.dtype, options.tf32, device);
  if (options.shapes.empty()) {
    options.shapes.push_back(device == DeviceType::cuda ? Shape{8192, 10240, 8192} : Shape{512, 1024, 1024});
  }
  return options;
}

LinearProblem problem_of(const BenchOptions& options, const Shape& shape, int ranks, DeviceType device) {
  return {.kind = linear_kind(options.operation),
          .shape = shape,
          .ranks = ranks,
          .dtype = *options.dtype,
          .float8 = options.float8,
          .tf32 = options.tf32,
          .device = device,
          .x_layout = options.layouts.x,
          .weight_layout = options.layouts.weight,
          .bias = options.epilogue.bias,
          .activation = options.epilogue.activation,
          .auxiliary = options.epilogue.auxiliary,
          .symmetric_output = options.symmetric,
          .gathered = options.gradient.gathered,
          .gradient_dtype = options.gradient.dtype,
          .key = options.seed};
}

LinearOptions plan_options(const BenchOptions& options) {
  return {.algorithm = options.algorithm, .groups = options.groups, .sms = options.sms};
}

class LinearBench {
 public:
  LinearBench(const World& world, const BenchOptions& options)
      : world_(world),
        options_(options),
        stream_(world.device()),
        clocks_(world.team()),
        timing_(world.team(), stream_, options.blocking, &clocks_) {}

  void measure(const Shape& shape, Report& report) {
    const Team& team = world_.team();
    const LinearProblem problem = problem_of(options_, shape, world_.size(), world_.device().id().type);
    LinearRun run(team, problem);
    LinearPlanOfAnyKind overlap(team, problem, plan_options(options_));
    LinearPlanOfAnyKind sequence(team, problem, {.algorithm = "sequence", .groups = std::nullopt, .sms = options_.sms});
    const auto queued = [&](LinearPlanOfAnyKind& plan) {
      return timing_.queued([this, &run, &plan] { run(plan, stream_); }, options_.repetitions);
    };
    const QueuedRuns overlapped = queued(overlap);
    const QueuedRuns sequential = queued(sequence);
    const auto wrong_of = [&](const QueuedRuns& runs, bool corrupted) {
      return wrong_elements(team, problem, run, runs.queue, stream_, corrupted);
    };
    std::int64_t wrong = wrong_of(overlapped, false) + wrong_of(sequential, false);
    OverlapTimes times;
    if (wrong == 0) {
      times =
          measure_linear(team, problem, overlapped, sequential, timing_, stream_, options_.repetitions, options_.wire);
      times.overlaps = overlap.choice().algorithm != "sequence";
      wrong = wrong_of(overlapped, corrupts(world_.rank()));
    }
    wrong_ += wrong;
    add_row(report, problem, overlap, times, wrong);
    if (!options_.timeline.empty()) timing_.trace([&] { run(overlap, stream_); });
  }
  [[nodiscard]] std::int64_t wrong() const noexcept { return wrong_; }
  [[nodiscard]] const SmClocks& clocks() const noexcept { return clocks_; }

 private:
  void add_row(Report& report, const LinearProblem& problem, const LinearPlanOfAnyKind& plan, const OverlapTimes& times,
               std::int64_t wrong) {
    const LinearChoice& choice = plan.choice();
    nlohmann::ordered_json values{{"m", problem.shape.m},
                                  {"n", problem.shape.n},
                                  {"k", problem.shape.k},
                                  {"type", problem.type()},
                                  {"algorithm", choice.algorithm},
                                  {"groups", choice.groups},
                                  {"why", choice.why},
                                  {"checked", is_checked_whole(problem, 0) ? "all" : "sample"},
                                  {"wrong", wrong}};
    std::string line = format("{:>8} {:>7} {:>7} {:>6} {:>11} {:>6}", problem.shape.m, problem.shape.n, problem.shape.k,
                              problem.type(), algorithm_text(choice.algorithm, choice.groups), wrong);
    add_times(values, line, times, wrong, options_.stats);
    values["predicted_sequence_us"] = choice.predicted.t_sequence * 1e6;
    values["predicted_pipeline_us"] = choice.predicted.t_pipeline * 1e6;
    values["predicted_stepwise_us"] = microseconds_if_any(choice.predicted.t_stepwise);
    values["predicted_growing_us"] = microseconds_if_any(choice.predicted.t_growing);
    values["predicted_shrinking_us"] = microseconds_if_any(choice.predicted.t_shrinking);
    values["predicted_direct_us"] = microseconds_if_any(choice.predicted.t_direct);
    const std::string wire = options_.wire ? add_wire(values, times, wrong) : "";
    clocks_.add_to(values);
    report.row(values, line);
    if (options_.wire) report.comment(wire);
  }

  const World& world_;
  const BenchOptions& options_;
  Stream stream_;
  SmClocks clocks_;
  Timing timing_;
  std::int64_t wrong_ = 0;
};

void print_header(Report& report, bool sampled, bool stats) {
  if (sampled) {
    report.comment(
        format("#wrong of large shapes is out of a sample: {0} x {0} elements of each rank's output", sampled_lines));
  }
  report.comment("");
  report.comment(format("{:>6} {:>7} {:>7} {:>6} {:>11} {:>6}", "M", "N", "K", "type", "algorithm", "#wrong") +
                 overlap_columns(stats));
  report.comment(format("{:>6} {:>7} {:>7} {:>6} {:>11} {:>6}", "", "", "", "", "/groups", "") + overlap_units(stats));
}

}  // namespace

void expect_linear(const BenchOptions& given, int ranks, DeviceType device) {
  const BenchOptions options = with_defaults(given, device);
  for (const Shape& shape : options.shapes) {
    const LinearProblem problem = problem_of(options, shape, ranks, device);
    // Any cost table will do: what is possible does not depend on the costs.
    static_cast<void>(choose(problem.kind, problem.costed_spec(0), ranks, h200_costs(), plan_options(options)));
  }
}

int bench_linear(const World& world, const BenchOptions& given) {
  const DeviceType device = world.device().id().type;
  const BenchOptions options = with_defaults(given, device);
  Report report(world,
                format("tandem bench {}{}: {}, {}", name(options.operation),
                       in_words(options.float8) + in_words(options.layouts, options.epilogue) +
                           in_words(options.gradient) + (options.symmetric ? ", into a symmetric tensor" : ""),
                       to_string(options.repetitions), setting(world)),
                options.report);
  report.set("operation", name(options.operation));
  if (multiplies_weight(options.operation)) {
    report.set("layout", to_string(options.layouts));
    report.set("bias", options.epilogue.bias);
    report.set("activation", name(options.epilogue.activation));
    report.set("auxiliary", name(options.epilogue.auxiliary));
    add_to(report, *options.dtype, options.float8);
  }
  if (options.operation == Operation::linear_all_reduce) report.set("symmetric", options.symmetric);
  if (is_weight_gradient(options.operation)) {
    report.set("gathered", options.gradient.gathered == GatheredOperand::x ? "x" : "dy");
    report.set("gradient_dtype", name(options.gradient.dtype));
  }
  const bool sampled = std::ranges::any_of(options.shapes, [&](const Shape& shape) {
    return !is_checked_whole(problem_of(options, shape, world.size(), device), 0);
  });
  print_header(report, sampled, options.stats);
  LinearBench bench(world, options);
  for (const Shape& shape : options.shapes) {
    report.measuring(to_string(shape));
    bench.measure(shape, report);
  }
  report.set("wrong", bench.wrong());
  bench.clocks().add_to(report);
  report.finish();
  write_timeline(world, options);
  return bench.wrong() == 0 || world.rank() != 0 ? success : failure;
}

}  // namespace tandem::tools
