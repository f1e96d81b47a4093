// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tandem/device/device.hpp"
#include "tandem/device/trace_range.hpp"
#include "tandem/linear/bulk_overlap.hpp"
#include "tandem/linear/tuned_product.hpp"

#include "base/format.hpp"
#include "tools/bench.hpp"
#include "tools/collective_check.hpp"
#include "tools/collective_run.hpp"
#include "tools/corruption.hpp"
#include "tools/local_product.hpp"
#include "tools/overlap_times.hpp"
#include "tools/sm_clocks.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {
namespace {

/// The form to measure unless the options specify one: in place where that saves the copy of the own shard.
const Form& form_of(const BenchOptions& options) {
  const bool in_place = options.in_place || (options.operation == Operation::all_gather && !options.plain);
  const Form* form = form_for(options.operation, options.algorithm, !options.plain, in_place);
  return form != nullptr ? *form : *form_for(options.operation, options.algorithm, !options.plain, false);
}

/// Kernels that sum need SMs of their own: this many nearly saturate the links of a Hopper GPU
/// (docs/performance/gpu_notes/sums_signals_and_waits.md). Copies need none.
constexpr int sms_of_sums = 24;

/// The best `sms` for a collective that runs concurrently with a GEMM, unless the options specify it. Copies that are
/// done by kernels would wait until the GEMM leaves them SMs, so copy engines do them.
std::optional<int> sms_for(const BenchOptions& options, const World& world) {
  if (options.sms || world.device().id().type != DeviceType::cuda) return options.sms;
  // On a small GPU, or one that several ranks share: a quarter of what this rank has.
  if (adds(options.operation)) return std::clamp(world.team().resident_blocks() / 4, 1, sms_of_sums);
  return options.algorithm == "auto" ? std::optional(0) : std::nullopt;
}

class BesideBench {
 public:
  BesideBench(const World& world, const BenchOptions& options)
      : world_(world),
        options_(options),
        form_(form_of(options)),
        sms_(sms_for(options, world)),
        stream_(world.device()),
        clocks_(world.team()),
        timing_(world.team(), stream_, options.blocking, &clocks_),
        beside_(world.team(), {.algorithm = "beside"}),
        product_(world.team(), {.m = options.beside->m,
                                .n = options.beside->n,
                                .k = options.beside->k,
                                .transpose_b = true,
                                .dtype = *options.dtype,
                                .out_dtype = *options.dtype}) {
    if (sms_.value_or(0) > 0) {
      GemmSpec spec = product_.spec();
      spec.leave_sms = *sms_;
      leaving_ = tuned_gemm(world.team(), spec);
    }
    multiply_beside(stream_);
    world.team().synchronize(stream_);
    alone_ = product_.result();
  }

  void measure(std::int64_t size, Report& report) {
    const Team& team = world_.team();
    const CollectiveProblem problem =
        sized_problem(options_.operation, world_.size(), size, *options_.dtype, options_.root);
    CollectivePlan plan(team, options_.operation, problem.plan_count(), problem.dtype,
                        {.algorithm = options_.algorithm, .sms = sms_});
    CollectiveRun run(team, problem, form_);
    const CollectiveData data(problem, options_.seed);
    const auto communicate = [&](StreamRef stream) { run(plan, stream); };
    const auto compute = [&](StreamRef stream) { product_(stream); };
    const auto compute_beside = [&](StreamRef stream) {
      const TraceRange range(team.device(), stream, "GEMM", TraceKind::compute);
      multiply_beside(stream);
    };
    const auto overlap = [&] { beside_(stream_, communicate, compute_beside); };
    const auto queued = [&](const std::function<void()>& body) { return timing_.queued(body, options_.repetitions); };
    const QueuedRuns overlapped = queued(overlap);
    const auto wrong_of_overlapped = [&](bool corrupted) {
      product_.poison();
      const std::int64_t wrong = wrong_elements(team, run, data, overlapped, stream_, corrupted);
      return wrong + count_over_ranks(team, different_elements(product_.result(), alone_, size_of(*options_.dtype)));
    };
    std::int64_t wrong = wrong_of_overlapped(false);
    OverlapTimes times;
    if (wrong == 0) {
      times = measure_overlap({.gemm = queued([&] { compute(stream_); }),
                               .comm = queued([&] { communicate(stream_); }),
                               .sequence = queued([&] {
                                 communicate(stream_);
                                 compute(stream_);
                               }),
                               .overlap = overlapped},
                              timing_, options_.repetitions);
      wrong = wrong_of_overlapped(corrupts(world_.rank()));
    }
    wrong_ += wrong;
    add_row(report, size, times, wrong);
    if (!options_.timeline.empty()) timing_.trace(overlap);
  }
  [[nodiscard]] std::int64_t wrong() const noexcept { return wrong_; }
  [[nodiscard]] const Form& form() const noexcept { return form_; }
  [[nodiscard]] const std::optional<int>& sms() const noexcept { return sms_; }
  [[nodiscard]] const SmClocks& clocks() const noexcept { return clocks_; }

 private:
  void multiply_beside(StreamRef stream) const { leaving_ ? product_.run(*leaving_, stream) : product_(stream); }
  void add_row(Report& report, std::int64_t size, const OverlapTimes& times, std::int64_t wrong) {
    const Shape& shape = *options_.beside;
    nlohmann::ordered_json values{
        {"size", size},  {"m", shape.m}, {"n", shape.n}, {"k", shape.k}, {"type", name(*options_.dtype)},
        {"wrong", wrong}};
    std::string line =
        format("{:>12} {:>7} {:>7} {:>7} {:>5} {:>6}", size, shape.m, shape.n, shape.k, name(*options_.dtype), wrong);
    add_times(values, line, times, wrong, options_.stats);
    clocks_.add_to(values);
    report.row(values, line);
  }

  const World& world_;
  const BenchOptions& options_;
  const Form& form_;
  std::optional<int> sms_;
  Stream stream_;
  SmClocks clocks_;
  Timing timing_;
  BulkOverlap beside_;
  LocalProduct product_;
  std::unique_ptr<Gemm> leaving_;  // the GEMM that leaves SMs to the collective; null if it need not
  std::vector<std::byte> alone_;   // the GEMM's result when it runs alone
  std::int64_t wrong_ = 0;
};

}  // namespace

int bench_beside(const World& world, const BenchOptions& given) {
  BenchOptions options = given;
  options.dtype = given.dtype.value_or(f32);
  BesideBench bench(world, options);
  Report report(world,
                format("tandem bench {} (tensors: {}) beside a product of {} on each rank: algorithm {}, {}, {}",
                       name(options.operation), bench.form().name, to_string(*options.beside), options.algorithm,
                       to_string(options.repetitions), setting(world)),
                options.report);
  report.set("operation", name(options.operation));
  report.set("algorithm", options.algorithm);
  report.set("tensors", bench.form().name);
  if (bench.sms()) report.set("sms", *bench.sms());
  if (bench.sms().value_or(0) > 0) {
    report.comment(format("the collective has {} SMs, which the product leaves to it", *bench.sms()));
  }
  report.comment("");
  report.comment(format("{:>10} {:>7} {:>7} {:>7} {:>5} {:>6}", "size", "M", "N", "K", "type", "#wrong") +
                 overlap_columns(options.stats));
  report.comment(format("{:>10} {:>7} {:>7} {:>7} {:>5} {:>6}", "(B)", "", "", "", "", "") +
                 overlap_units(options.stats));
  for (const std::int64_t size : bench_sizes(options)) {
    report.measuring(bytes_to_string(size));
    bench.measure(size, report);
  }
  report.set("wrong", bench.wrong());
  bench.clocks().add_to(report);
  report.finish();
  write_timeline(world, options);
  return bench.wrong() == 0 || world.rank() != 0 ? success : failure;
}

}  // namespace tandem::tools
