// SPDX-License-Identifier: Apache-2.0
#include "tools/verify.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <vector>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "tools/options.hpp"
#include "tools/parse.hpp"
#include "tools/ranks.hpp"
#include "tools/report.hpp"
#include "tools/timing.hpp"
#include "tools/verify_case.hpp"

namespace tandem::tools {
namespace {

constexpr const char* help_of_verify = R"(
A case is a random team of the ranks (any order, any size), a plan with random sizes, dtype, layouts, algorithm and
options, and a few runs of it on random data, on CUDA some of them as graphs. Sizes are odd, tiny or nothing as often
as not; outputs hold poison before, and ranks are held up at random points of one case in four. Every element is
compared with an fp64 reference:
  |out - ref64| <= |unfused - ref64| + sqrt(2 K) * epsilon * (|A| * |B|) + r
where epsilon is that of the sums (fp32 for 16-bit types), and r what rounding the result, and what is rounded on the
way to it, may change. Operations that only move data must be exact, and all ranks' results of an all_reduce equal.

Ends with "N passed, N failed", and for each failure the command that repeats it; then the exit code is 1.

Examples:
  tandem verify all -n 4 --cases 50
  tandem verify linear_reduce_scatter -n 3 --seed 7 --case 41
)";

// Cases between two exchanges of results; in the meantime, ranks outside a case's team continue with the next case.
constexpr std::int64_t batch = 16;

struct VerifyOptions {
  std::vector<Operation> operations;
  RankOptions ranks;
  std::optional<std::uint64_t> seed;
  std::int64_t cases = 100;
  std::optional<std::int64_t> only;
  bool delay = false;
  std::string json;
};

std::vector<Operation> parse_operations(const std::string& text) {
  std::vector<std::string> known = operation_names();
  known.insert(known.begin(), "all");
  const std::size_t which = parse_name("operation", text, known);
  if (which != 0) return {static_cast<Operation>(which - 1)};
  std::vector<Operation> all;
  for (const std::string& each : operation_names()) all.push_back(parse_operation(each));
  return all;
}

struct Failure {
  CaseName name;
  std::string what;
  std::string wrong;
};

class Verification {
 public:
  Verification(const World& world, const VerifyOptions& options) : world_(world), options_(options) {}

  /// Collective.
  void run(Operation operation) {
    const std::int64_t begin = options_.only.value_or(0);
    const std::int64_t end = options_.only ? begin + 1 : options_.cases;
    for (std::int64_t first = begin; first < end; first += batch) {
      const std::int64_t count = std::min(batch, end - first);
      progress(operation, first, end);
      run(operation, first, count);
    }
    progress(operation, end, end);
  }

  [[nodiscard]] std::int64_t passed() const noexcept { return passed_; }
  [[nodiscard]] const std::vector<Failure>& failures() const noexcept { return failures_; }

  [[nodiscard]] std::string repeat_command(const Failure& failure) const {
    std::string command = format("tandem verify {} -n {}", name(failure.name.operation), world_.size());
    if (options_.ranks.device) command += format(" --device {}", name(*options_.ranks.device));
    if (options_.ranks.link) command += " --link " + to_string(*options_.ranks.link);
    command += format(" --seed {} --case {}", failure.name.seed, failure.name.index);
    return options_.delay ? command + " --delay" : command;
  }

 private:
  void run(Operation operation, std::int64_t first, std::int64_t count) {
    nlohmann::json mine = nlohmann::json::array();
    for (std::int64_t i = 0; i < count; ++i) {
      const CaseResult result = run_case(world_, {operation, *options_.seed, first + i, options_.delay});
      if (!result.wrong.empty()) mine.push_back({{"index", i}, {"what", result.what}, {"wrong", result.wrong}});
    }
    std::vector<Failure> found(static_cast<std::size_t>(count));
    const std::vector<std::string> ranks = gather_texts(world_.team(), mine.dump());
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      for (const auto& each : nlohmann::json::parse(ranks[rank])) {
        Failure& failure = found[each["index"].get<std::size_t>()];
        failure.what = each["what"].get<std::string>();
        failure.wrong +=
            format("{}rank {}: {}", failure.wrong.empty() ? "" : "\n  ", rank, each["wrong"].get<std::string>());
      }
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i].wrong.empty()) {
        ++passed_;
        continue;
      }
      found[i].name = {operation, *options_.seed, first + static_cast<std::int64_t>(i), options_.delay};
      failures_.push_back(std::move(found[i]));
    }
  }

  void progress(Operation operation, std::int64_t done, std::int64_t all) const {
    if (world_.rank() != 0) return;
    show_progress(done == all ? "" : format("{} {} of {}, {} failed", name(operation), done, all, failures_.size()));
  }

  const World& world_;
  const VerifyOptions& options_;
  std::int64_t passed_ = 0;
  std::vector<Failure> failures_;
};

/// The seed that was given, or one that rank 0 draws for all. Collective.
std::uint64_t common_seed(const World& world, const std::optional<std::uint64_t>& given) {
  if (given) return *given;
  const std::string mine = format("{}", std::random_device{}());
  return std::stoull(gather_texts(world.team(), mine)[0]);
}

/// Printed before the first case, so that the seed is known even if a case crashes.
void introduce(const World& world, const VerifyOptions& options) {
  if (world.rank() != 0 || options.json == "-") return;
  std::fputs(format("seed {}, {} ranks on {}\n", *options.seed, world.size(), setting(world)).c_str(), stdout);
  std::fflush(stdout);
}

int report(const World& world, const VerifyOptions& options, const Verification& verification) {
  const std::vector<Failure>& failures = verification.failures();
  if (world.rank() != 0) return success;  // rank 0 reports; if another rank failed earlier, rank 0 would be stopped
  nlohmann::ordered_json document{{"seed", *options.seed},     {"ranks", world.size()},
                                  {"device", setting(world)},  {"passed", verification.passed()},
                                  {"failed", failures.size()}, {"failures", nlohmann::ordered_json::array()}};
  std::string text;
  for (const Failure& each : failures) {
    const std::string repeat = verification.repeat_command(each);
    text += format("FAILED {} case {}: {}\n  {}\n  repeat: {}\n", name(each.name.operation), each.name.index, each.what,
                   each.wrong, repeat);
    document["failures"].push_back({{"operation", name(each.name.operation)},
                                    {"case", each.name.index},
                                    {"what", each.what},
                                    {"wrong", each.wrong},
                                    {"repeat", repeat}});
  }
  text += format("{} passed, {} failed\n", verification.passed(), failures.size());
  if (options.json != "-") std::fputs(text.c_str(), stdout);
  if (!options.json.empty()) write_json(options.json, document);
  return failures.empty() ? success : failure;
}

}  // namespace

int verify(Arguments arguments) {
  VerifyOptions options;
  CLI::App app("Runs random cases of the operations, and compares every element with an fp64 reference", "verify");
  app.footer(help_of_verify);
  options.operations = parse_operations("all");
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  app.add_option_function<std::string>(
         "operation", [&](const std::string& text) { options.operations = parse_operations(text); },
         "all (the default), or one of " + joined(operation_names()))
      ->type_name("OP");
  add_rank_options(app, options.ranks);
  app.add_option_function<std::string>(
         "--seed",
         [&](const std::string& text) {
           options.seed = static_cast<std::uint64_t>(parse_integer("--seed", text, 0, most));
         },
         "of everything random (default: a fresh one, which is printed)")
      ->type_name("N");
  auto* cases =
      app.add_option_function<std::string>(
             "--cases", [&](const std::string& text) { options.cases = parse_integer("--cases", text, 1, most); },
             "how many of each operation (default 100)")
          ->type_name("N");
  app.add_option_function<std::string>(
         "--case", [&](const std::string& text) { options.only = parse_integer("--case", text, 0, most - 1); },
         "this one alone")
      ->type_name("N")
      ->excludes(cases);
  app.add_flag("--delay", options.delay, "hold up ranks at random points of every case");
  add_output(app, "--json", options.json, "write the results as JSON; - is stdout, without the text");
  if (const auto code = parse(app, arguments)) return *code;

  const World world = join(options.ranks, "verify", arguments);
  options.seed = common_seed(world, options.seed);
  introduce(world, options);
  Verification verification(world, options);
  for (const Operation operation : options.operations) verification.run(operation);
  return report(world, options, verification);
}

}  // namespace tandem::tools
