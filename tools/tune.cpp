// SPDX-License-Identifier: Apache-2.0
#include "tools/tune.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/linear/tuned_choice.hpp"
#include "tandem/linear/tuned_product.hpp"

#include "base/format.hpp"
#include "tools/bench.hpp"
#include "tools/corruption.hpp"
#include "tools/linear_check.hpp"
#include "tools/linear_problem.hpp"
#include "tools/options.hpp"
#include "tools/parse.hpp"
#include "tools/product_times.hpp"
#include "tools/provenance.hpp"
#include "tools/ranks.hpp"
#include "tools/report.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {
namespace {

constexpr const char* help_of_tune = R"(
For each --shape M,N,K (M tokens of all ranks, N outputs, K inputs; N is split over ranks where x is gathered, K where y
is reduced), each algorithm and number of groups runs in turns with what the cost model would choose; the best of them
then run in turns with each other. The fastest is kept in the plan cache, TANDEM_PLAN_CACHE or --cache: plans of the
same operation, sizes, dtypes, scaling, layouts, number of ranks, device and versions, whose algorithm is left to them,
run that from then on and say so in describe(), whatever their bias and activation. The model's choice stays where
nothing is faster by 1 %.

On CUDA the GEMMs come first: each rank's GEMM, whole and in pieces down to an eighth of its rows (of a weight
gradient only whole), is run in turns by the best few algorithms that cuBLASLt offers for it. The fastest are stored as
well, for all plans with that GEMM; their results may differ from those of cuBLASLt's first choice in the last bits.

Times are medians of the slowest rank's; #wrong counts elements that differ from the reference in one run of each
(of large shapes, in 64 x 64 elements of each rank's output). If any result is wrong, nothing is stored (for a GEMM,
cuBLASLt's first algorithm is), and the exit code is 1.

Examples:
  tandem tune all_gather_linear -n 4 --device cuda --shape 8192,57344,8192
  tandem tune linear_reduce_scatter -n 3 --device host --shape 512,1024,1024 --link 50us,500MB/s --cache plans
  tandem tune linear_reduce_scatter -n 4 --device cuda --shape 8192,8192,57344 --layout NN   # its gradient of x
)";

/// A candidate replaces the model's choice only if it takes less than this fraction of that choice's time.
constexpr double worthwhile = 0.99;
/// How many of the candidates that did best against the model's choice are compared with each other.
constexpr std::size_t finalists = 3;

std::vector<std::string> linear_names() {
  std::vector<std::string> names;
  for (const std::string& each : operation_names()) {
    if (is_linear(parse_operation(each))) names.push_back(each);
  }
  return names;
}

struct TuneOptions {
  Operation operation = Operation::all_gather_linear;
  RankOptions ranks;
  std::vector<Shape> shapes;
  Layouts layouts;
  GradientOptions gradient;
  std::optional<DType> dtype;
  Float8Options float8;
  bool tf32 = false;
  double seconds = 2;
  std::optional<std::string> cache;
  Report::Options report;
};

/// One way to run the operation, and its time.
struct Candidate {
  LinearOptions options;
  double seconds = 0;   ///< median
  double to_model = 1;  ///< relative to the time of the model's choice, measured in turns with it
  std::int64_t wrong = 0;
};

bool is_same(const LinearOptions& a, const LinearOptions& b) {
  return a.algorithm == b.algorithm && a.groups.value_or(0) == b.groups.value_or(0);
}

std::string text_of(const LinearOptions& options) {
  return algorithm_text(options.algorithm, options.groups.value_or(0));
}

/// All ways to run the operation; the first is the model's choice.
std::vector<Candidate> candidates(const LinearProblem& problem, const Device& device) {
  const LinearChoice model = choose(problem.kind, problem.costed_spec(0), problem.ranks, device.costs());
  std::vector<Candidate> all;
  const auto add = [&](const LinearOptions& options) {
    if (all.empty() || !is_same(options, all.front().options)) all.push_back({.options = options});
  };
  add({.algorithm = model.algorithm, .groups = model.groups > 0 ? std::optional(model.groups) : std::nullopt});
  const int most = most_groups(problem.kind, problem.costed_spec(0), problem.ranks);
  for (const std::string& algorithm : linear_algorithms(problem.kind)) {
    if (!has_groups(algorithm)) {
      add({.algorithm = algorithm, .groups = std::nullopt});
      continue;
    }
    const int fewest = algorithm == "pipeline" ? 1 : 2;  // with one group, the others equal a pipeline
    for (int groups = fewest; groups <= most; ++groups) add({.algorithm = algorithm, .groups = groups});
  }
  return all;
}

class Tuner {
 public:
  Tuner(const World& world, const TuneOptions& options)
      : world_(world),
        options_(options),
        cache_(world.env().plan_cache),
        stream_(world.device()),
        timing_(world.team(), stream_, false) {}

  /// Collective. Returns how many elements were wrong; if none was, rank 0 stores the fastest way in the plan cache.
  std::int64_t tune(const Shape& shape, Report& report) {
    const LinearProblem problem{.kind = linear_kind(options_.operation),
                                .shape = shape,
                                .ranks = world_.size(),
                                .dtype = *options_.dtype,
                                .float8 = options_.float8,
                                .tf32 = options_.tf32,
                                .device = world_.device().id().type,
                                .x_layout = options_.layouts.x,
                                .weight_layout = options_.layouts.weight,
                                .gathered = options_.gradient.gathered,
                                .gradient_dtype = options_.gradient.dtype,
                                .key = 1};
    std::vector<Candidate> all = candidates(problem, world_.device());
    const std::vector<ProductTimes> products = tune_products(problem, report);
    LinearRun run(world_.team(), problem);
    compare_with_model(problem, run, all);
    std::vector<Candidate> best = best_of(all);
    const std::int64_t wrong = compare(problem, run, best);
    const std::optional<std::size_t> kept = wrong == 0 ? std::optional(worth_keeping(best)) : std::nullopt;
    for (std::size_t i = 0; i < best.size(); ++i) add_row(report, problem, best[i], i == kept);
    if (world_.rank() != 0) return wrong;
    if (kept) {
      keep(problem, best, *kept, all.size(), report);
    } else {
      report.comment(format("{}: no way is kept, since {} elements were wrong", to_string(problem.shape), wrong));
      for (const ProductTimes& each : products) keep(each, 0);  // the ones that run untuned
    }
    return wrong;
  }

 private:
  using Bodies = std::vector<std::function<void()>>;

  /// Stores the fastest algorithms before the plans that will use them are created. Takes a quarter of --seconds, in
  /// addition to the rest.
  std::vector<ProductTimes> tune_products(const LinearProblem& problem, Report& report) {
    const std::string what = format("{} {}", name(options_.operation), to_string(problem.shape));
    std::vector<ProductTimes> products =
        measure_products(world_.team(), problem, timing_, stream_, options_.seconds / 4,
                         [&](const std::string& line) { progress(format("{}: {}", what, line)); });
    progress("");
    for (const ProductTimes& each : products) {
      const std::vector<double>& seconds = each.seconds;
      const auto fastest = static_cast<std::size_t>(std::ranges::min_element(seconds) - seconds.begin());
      const std::size_t kept = seconds[fastest] < worthwhile * seconds[0] ? fastest : 0;
      if (world_.rank() == 0) keep(each, kept);
      report_product(each, kept, report);
    }
    report.set("products", products_);
    return products;
  }

  void keep(const ProductTimes& product, std::size_t which) const {
    cache_.keep(product_cache_key(product.spec, product.m, world_.device()),
                {.algorithm = product.algorithms[which], .groups = 0, .seconds = product.seconds[which]});
  }

  void report_product(const ProductTimes& product, std::size_t kept, Report& report) {
    const double first = product.seconds[0] * 1e6;
    const double chosen = product.seconds[kept] * 1e6;
    products_.push_back({{"m", product.m},
                         {"n", product.spec.n},
                         {"k", product.spec.k},
                         {"algorithms", product.algorithms.size()},
                         {"first_us", first},
                         {"time_us", chosen},
                         {"algorithm", product.algorithms[kept]}});
    report.comment(format("local product {}, {}, {}: of {} algorithms {} is kept, {}", product.m, product.spec.n,
                          product.spec.k, product.algorithms.size(), product.algorithms[kept],
                          kept == 0 ? format("which runs untuned, {} us", time_text(first))
                                    : format("{} us, {:.3f} of what runs untuned, {} us", time_text(chosen),
                                             chosen / first, time_text(first))));
  }

  /// Times each candidate in turns with the model's choice, for half of --seconds.
  void compare_with_model(const LinearProblem& problem, LinearRun& run, std::vector<Candidate>& all) {
    if (all.size() == 1) return;
    const Team& team = world_.team();
    LinearPlanOfAnyKind model(team, problem, all.front().options);
    const double limit = options_.seconds / 2 / static_cast<double>(all.size() - 1);
    for (std::size_t i = 1; i < all.size(); ++i) {
      progress(format("{} {}: {} of {} ways", name(options_.operation), to_string(problem.shape), i, all.size()));
      LinearPlanOfAnyKind plan(team, problem, all[i].options);
      const std::vector<double> times =
          timing_.medians_in_turns(Bodies{[&] { run(model, stream_); }, [&] { run(plan, stream_); }}, limit, 3, 20);
      all[i].seconds = times[1];
      all[i].to_model = times[1] / times[0];
    }
  }

  /// The model's choice, and the candidates that were fastest relative to it.
  static std::vector<Candidate> best_of(std::vector<Candidate> all) {
    std::ranges::stable_sort(all.begin() + 1, all.end(), {}, &Candidate::to_model);
    all.resize(std::min(all.size(), 1 + finalists));
    return all;
  }

  /// Times the best candidates in turns with each other, for the other half of --seconds.
  std::int64_t compare(const LinearProblem& problem, LinearRun& run, std::vector<Candidate>& best) {
    const Team& team = world_.team();
    std::list<LinearPlanOfAnyKind> plans;  // a list, since bodies refer to its elements
    std::int64_t wrong = 0;
    Bodies bodies;
    for (Candidate& each : best) {
      LinearPlanOfAnyKind& plan = plans.emplace_back(team, problem, each.options);
      each.wrong = wrong_elements(
          team, problem, run, [&] { run(plan, stream_); }, stream_, corrupts(world_.rank()) && plans.size() == 1);
      wrong += each.wrong;
      bodies.push_back([&] { run(plan, stream_); });
    }
    progress(format("{} {}: the best {}", name(options_.operation), to_string(problem.shape), best.size()));
    const std::vector<double> times = timing_.medians_in_turns(bodies, options_.seconds / 2, 9, 200);
    progress("");
    for (std::size_t i = 0; i < best.size(); ++i) {
      best[i].seconds = times[i];
      best[i].to_model = times[i] / times[0];
    }
    return wrong;
  }

  static std::size_t worth_keeping(const std::vector<Candidate>& best) {
    const auto fastest = std::ranges::min_element(best, {}, &Candidate::seconds);
    const bool worth = fastest->seconds < worthwhile * best.front().seconds;
    return worth ? static_cast<std::size_t>(fastest - best.begin()) : 0;
  }

  void keep(const LinearProblem& problem, const std::vector<Candidate>& best, std::size_t which, std::size_t ways,
            Report& report) const {
    const Candidate& model = best.front();
    const Candidate& kept = best[which];
    cache_.keep(
        plan_cache_key(problem.kind, problem.costed_spec(0), problem.ranks, world_.device()),
        {.algorithm = kept.options.algorithm, .groups = kept.options.groups.value_or(0), .seconds = kept.seconds});
    report.comment(format("{}: of {} ways {} is kept{}", to_string(problem.shape), ways, text_of(kept.options),
                          &kept == &model ? ", as the model chose"
                                          : format(", {:.2f} of the time of the model's choice, {}", kept.to_model,
                                                   text_of(model.options))));
  }

  void add_row(Report& report, const LinearProblem& problem, const Candidate& candidate, bool kept) const {
    const bool right = candidate.wrong == 0;
    const double microseconds = candidate.seconds * 1e6;
    nlohmann::ordered_json values{{"m", problem.shape.m},
                                  {"n", problem.shape.n},
                                  {"k", problem.shape.k},
                                  {"type", problem.type()},
                                  {"algorithm", candidate.options.algorithm},
                                  {"groups", candidate.options.groups.value_or(0)},
                                  {"wrong", candidate.wrong},
                                  {"time_us", right ? nlohmann::ordered_json(microseconds) : nullptr},
                                  {"to_model", right ? nlohmann::ordered_json(candidate.to_model) : nullptr},
                                  {"kept", kept}};
    report.row(values,
               format("{:>8} {:>7} {:>7} {:>6} {:>11} {:>6} {:>9} {:>8}", problem.shape.m, problem.shape.n,
                      problem.shape.k, problem.type(), text_of(candidate.options), candidate.wrong,
                      right ? time_text(microseconds) : "-", right ? format("{:.3f}", candidate.to_model) : "-"));
  }

  void progress(const std::string& line) const {
    if (world_.rank() == 0) show_progress(line);
  }

  const World& world_;
  const TuneOptions& options_;
  PlanCache cache_;
  Stream stream_;
  Timing timing_;
  nlohmann::ordered_json products_ = nlohmann::ordered_json::array();
};

void print_header(Report& report) {
  report.comment("");
  report.comment(format("{:>6} {:>7} {:>7} {:>6} {:>11} {:>6} {:>9} {:>8}", "M", "N", "K", "type", "algorithm",
                        "#wrong", "time", "to model"));
  report.comment(
      format("{:>6} {:>7} {:>7} {:>6} {:>11} {:>6} {:>9} {:>8}", "", "", "", "", "/groups", "", "(us)", "'s"));
}

/// Throws InvalidArgument for an unusable plan cache, before anything is measured.
void expect_usable(const Env& env, const std::optional<std::string>& given) {
  const PlanCache cache(env.plan_cache);
  if (cache.path().empty() || (given && *given == "none")) {
    const char* const set = std::getenv("TANDEM_PLAN_CACHE");
    throw InvalidArgument(
        format("{}, so that nothing could be kept; allowed: a path, as --cache or in TANDEM_PLAN_CACHE",
               given            ? format("--cache is '{}'", *given)
               : set != nullptr ? format("TANDEM_PLAN_CACHE is '{}'", set)
                                : "there is no home for a plan cache, and TANDEM_PLAN_CACHE is not set"));
  }
  if (const std::string trouble = cache.trouble(); !trouble.empty()) {
    throw InvalidArgument(
        format("'{}' is not a plan cache: {}; remove it, or name another file with --cache", cache.path(), trouble));
  }
  const std::string why = why_no_files_in(std::filesystem::path(cache.path()).parent_path().string());
  if (!why.empty()) {
    throw InvalidArgument(
        format("the plan cache '{}' cannot be kept: {}; name another file with --cache", cache.path(), why));
  }
  try {  // root may write anywhere, by its permissions, but not in /proc
    cache.expect_writable();
  } catch (const Error& error) {
    throw InvalidArgument(format("{}; name another file with --cache", error.what()));
  }
}

}  // namespace

int tune(Arguments arguments) {
  TuneOptions options;
  CLI::App app("Measures the ways to run a linear operation, and keeps the fastest for its plans", "tune");
  app.footer(help_of_tune);
  using Text = std::string;
  add_operation(app, options.operation, linear_names());
  add_rank_options(app, options.ranks);
  add_shapes(app, options.shapes, "the global sizes; may be given several times");
  add_layouts(app, options.layouts);
  add_gradient(app, options.gradient);
  add_dtype(app, options.dtype, "the element type (default f32; on cuda: bf16)");
  add_float8(app, options.float8);
  add_tf32(app, options.tf32);
  app.add_option_function<Text>(
         "--seconds", [&](const Text& text) { options.seconds = parse_number("--seconds", text, 0.01, 3600); },
         "how long to measure each shape, plans and data apart, on CUDA a quarter more (default 2); each way is run a "
         "few times, however long that takes")
      ->type_name("N");
  app.add_option("--cache", options.cache, "the plan cache (default: TANDEM_PLAN_CACHE)")->type_name("FILE");
  add_report(app, options.report);
  if (const auto code = parse(app, arguments)) return *code;
  if (!is_linear(options.operation)) {
    throw InvalidArgument(format("{} is not tuned; allowed: {}", name(options.operation), joined(linear_names())));
  }
  if (options.shapes.empty()) {
    throw InvalidArgument(format("{} needs --shape M,N,K, as in --shape 512,1024,256", name(options.operation)));
  }
  expect_taken(options.operation, app);
  expect_options(options.operation, "auto", options.dtype, options.tf32);
  expect_one_stdout(options.report);

  Env env = environment(options.ranks);
  if (options.cache) env.plan_cache = *options.cache;
  expect_usable(env, options.cache);
  const World world = join(options.ranks, env, "tune", arguments);
  if (world.size() == 1) {
    throw InvalidArgument("1 rank has nothing to communicate, and nothing to choose; allowed: -n 2 and more");
  }
  options.dtype = linear_dtype(options.dtype, options.tf32, world.device().id().type);

  options.report.run = provenance("tune", arguments, env);
  Report report(world,
                format("tandem tune {}{}{}{}: for about {} s a shape, longer where one run takes long, kept in {}",
                       name(options.operation), in_words(options.float8), in_words(options.layouts),
                       in_words(options.gradient), options.seconds, env.plan_cache),
                options.report);
  report.set("operation", name(options.operation));
  if (multiplies_weight(options.operation)) report.set("layout", to_string(options.layouts));
  add_to(report, *options.dtype, options.float8);
  if (is_weight_gradient(options.operation)) report.set("gradient_dtype", name(options.gradient.dtype));
  report.set("plan_cache", env.plan_cache);
  print_header(report);
  Tuner tuner(world, options);
  std::int64_t wrong = 0;
  for (const Shape& shape : options.shapes) wrong += tuner.tune(shape, report);
  report.set("wrong", wrong);
  report.finish();
  return wrong == 0 || world.rank() != 0 ? success : failure;
}

}  // namespace tandem::tools
