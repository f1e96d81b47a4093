// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>
#include <numeric>

#include "tandem/base/scalar.hpp"
#include "tandem/device/device.hpp"

#include "base/format.hpp"
#include "support/oracle.hpp"
#include "tools/bench.hpp"
#include "tools/collective_run.hpp"
#include "tools/corruption.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {
namespace {

/// What one form of one size came to.
struct Figures {
  std::int64_t wrong = 0;
  double time = 0;  ///< seconds
  double p99 = 0;
};

/// Data whose sums are exact in every dtype: whole numbers from 0 to 3, so that 64 ranks stay below 2^8.
int small_number(std::uint64_t key, std::int64_t index) {
  return static_cast<int>(testing::random_bits(key, static_cast<std::uint64_t>(index)) & 3U);
}

template <typename Body> auto with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f16: return body(Half{});
    case DType::bf16: return body(BFloat16{});
    case DType::f64: return body(double{});
    case DType::i32: return body(std::int32_t{});
    case DType::i64: return body(std::int64_t{});
    default: return body(float{});
  }
}

template <typename T> T exactly(int value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// `count` sums, from element `begin` on, of the numbers of these keys.
std::vector<std::byte> sums(DType dtype, std::span<const std::uint64_t> keys, std::int64_t begin, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_of(dtype));
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t i = 0; i < count; ++i) {
      int sum = 0;
      for (const std::uint64_t key : keys) sum += small_number(key, begin + i);
      const T value = exactly<T>(sum);
      std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof value, &value, sizeof value);
    }
    return 0;
  });
  return bytes;
}

/// Every rank's input is known to every other: this is what `rank` gives, and what it must get.
class Data {
 public:
  Data(const CollectiveProblem& problem, std::uint64_t seed) : problem_(problem) {
    for (int rank = 0; rank < problem.ranks; ++rank) {
      keys_.push_back(testing::key(seed, {static_cast<std::uint64_t>(problem.rows), static_cast<std::uint64_t>(rank)}));
    }
  }

  [[nodiscard]] std::vector<std::byte> input(int rank) const {
    const std::int64_t elements = problem_.input_elements(rank);
    const std::uint64_t key = keys_[static_cast<std::size_t>(rank)];
    if (adds(problem_.operation)) return sums(problem_.dtype, {&key, 1}, 0, elements);
    return testing::random_bytes(key, static_cast<std::size_t>(elements) * size_of(problem_.dtype));
  }

  [[nodiscard]] std::vector<std::byte> output(int rank) const {
    switch (problem_.operation) {
      case Operation::all_reduce: return sums(problem_.dtype, keys_, 0, problem_.rows);
      case Operation::reduce_scatter: {
        const Shard own = problem_.shard(rank);
        return sums(problem_.dtype, keys_, own.begin, own.count);
      }
      default: return gathered_output(problem_, rank, [this](int from) { return input(from); });
    }
  }

 private:
  CollectiveProblem problem_;
  std::vector<std::uint64_t> keys_;
};

std::int64_t wrong_elements(std::span<const std::byte> got, std::span<const std::byte> wanted, std::size_t element) {
  std::int64_t wrong = 0;
  for (std::size_t at = 0; at < wanted.size(); at += element) {
    if (std::memcmp(got.data() + at, wanted.data() + at, element) != 0) ++wrong;
  }
  return wrong;
}

/// What is measured: out of place unless --in-place was given, and in place where there is such a form.
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
      : world_(world), options_(options), stream_(world.device()), timing_(world.team(), stream_, options.blocking) {}

  [[nodiscard]] Figures measure(CollectivePlan& plan, const CollectiveProblem& problem, const Form& form) {
    const Team& team = world_.team();
    const Data data(problem, options_.seed);
    CollectiveRun run(team, problem, form);
    Figures figures;
    figures.wrong = wrong_of_a_run(plan, run, data, false);
    if (figures.wrong != 0) return figures;
    for (int i = 0; i < options_.warmup; ++i) timing_.measure([&] { run(plan, stream_); });
    static_cast<void>(timing_.collect());
    for (int i = 0; i < options_.iterations; ++i) timing_.measure([&] { run(plan, stream_); });
    const std::vector<double> times = timing_.collect();
    figures.time = median(times);
    figures.p99 = percentile(times, 99);
    figures.wrong = wrong_of_a_run(plan, run, data, corrupts(world_.rank()));
    if (!options_.timeline.empty()) trace_one_run(team, stream_, [&] { run(plan, stream_); });
    return figures;
  }

 private:
  /// Runs it once, from fresh input and over poison, so that no earlier run's result can be taken for this one's.
  [[nodiscard]] std::int64_t wrong_of_a_run(CollectivePlan& plan, CollectiveRun& run, const Data& data,
                                            bool corrupted) const {
    const Team& team = world_.team();
    run.fill(data.input(team.rank()));
    team.barrier();  // nobody writes into a peer before its poison stands
    run(plan, stream_);
    team.synchronize(stream_);
    std::vector<std::byte> result = run.result();
    if (corrupted) corrupt(result, *options_.dtype);
    return count_over_ranks(team, wrong_elements(result, data.output(team.rank()), size_of(*options_.dtype)));
  }

  const World& world_;
  const BenchOptions& options_;
  Stream stream_;
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
  if (stats) set("_p99_us", speaks ? figures->p99 * 1e6 : 0);
  set("_algbw_gbs", algbw);
  set("_busbw_gbs", algbw * factor);
  values[prefix + "_wrong"] = figures == nullptr ? nlohmann::ordered_json() : nlohmann::ordered_json(figures->wrong);
  const std::string none = figures == nullptr ? "N/A" : "-";
  line += format(" {:>8}", speaks ? time_text(figures->time * 1e6) : none);
  if (stats) line += format(" {:>8}", speaks ? time_text(figures->p99 * 1e6) : none);
  line += speaks ? format(" {:>7.2f} {:>7.2f}", algbw, algbw * factor) : format(" {:>7} {:>7}", none, none);
  line += format(" {:>6}", figures == nullptr ? "N/A" : format("{}", figures->wrong));
}

void print_header(Report& report, bool stats) {
  const std::string extra = stats ? "         " : "";
  const std::string p99 = stats ? "      p99" : "";
  const std::string unit = stats ? "     (us)" : "";
  report.comment("");
  report.comment(format("{:55}{:>22}{}{:>32}", "", "out-of-place", extra, "in-place"));
  report.comment(format("{:>10} {:>13} {:>8} {:>7} {:>7}  {:>8}{} {:>7} {:>7} {:>6} {:>8}{} {:>7} {:>7} {:>6}", "size",
                        "count", "type", "redop", "root", "time", p99, "algbw", "busbw", "#wrong", "time", p99, "algbw",
                        "busbw", "#wrong"));
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
  Report report(
      world,
      format("tandem bench {} (tensors: {}): algorithm {}, {} iterations, {} for warm-up, {}", name(options.operation),
             measured.apart == nullptr ? measured.in_place->name : measured.apart->name, options.algorithm,
             options.iterations, options.warmup, setting(world)),
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
    const CollectiveProblem problem =
        sized_problem(options.operation, world.size(), size, *options.dtype, options.root);
    CollectivePlan plan(world.team(), options.operation, problem.plan_count(), problem.dtype,
                        {.algorithm = options.algorithm});
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
    report.row(values, line);
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
  report.comment(format("Out of bounds values : {} {}", wrong, wrong == 0 ? "OK" : "FAILED"));
  report.comment(format("Avg bus bandwidth    : {:.3f}", average));
  if (!options.timeline.empty()) write_timeline(world, options.timeline);
  report.finish();
  return wrong == 0 || world.rank() != 0 ? success : failure;
}

}  // namespace tandem::tools
