// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <deque>
#include <functional>

#include "tandem/device/stream.hpp"

#include "base/format.hpp"
#include "memory/private_memory.hpp"
#include "tools/collective_run.hpp"
#include "tools/parse.hpp"
#include "tools/verify_case.hpp"

namespace tandem::tools {
namespace {

constexpr std::array summed{f32, f16, bf16, f64, i32, i64};
constexpr std::array moved{f32, f16, bf16, f64, i32, i64, u8, f8e4m3, f8e5m2};
constexpr std::array<std::size_t, 3> pieces{0, 256, 2048};
constexpr std::int64_t most_strided = 4000;  // elements: each may be a row that is filled and read separately

CollectiveProblem random_problem(Operation operation, Case& self) {
  Random& random = self.random();
  CollectiveProblem problem{.operation = operation, .ranks = self.team().size()};
  problem.dtype = adds(operation) ? random.pick(summed) : random.pick(moved);
  problem.rows = random.chance(10) ? random.between(1, 60'000) : self.extent(700);
  problem.row = problem.rows < 2000 && random.chance(50) ? self.extent(40) : 1;
  return problem;
}

/// A run of the plan that was made for `whole`: as large or smaller.
CollectiveProblem random_run(const CollectiveProblem& whole, bool first, bool counted, Random& random) {
  CollectiveProblem problem = whole;
  if (!first) problem.rows = random.between(0, whole.rows);
  problem.root = static_cast<int>(random.between(0, problem.ranks - 1));
  if (!counted) return problem;
  for (int pair = 0; pair < problem.ranks * problem.ranks; ++pair) {
    problem.counts.push_back(random.chance(25) ? 0 : random.between(0, whole.rows * whole.row));
  }
  return problem;
}

/// A problem's data: every rank can compute the inputs of all.
class Data {
 public:
  Data(const CollectiveProblem& problem, std::uint64_t key) : problem_(problem), key_(key) {}

  [[nodiscard]] std::vector<std::byte> input(int rank) const {
    const std::size_t bytes = static_cast<std::size_t>(problem_.input_elements(rank)) * size_of(problem_.dtype);
    if (!adds(problem_.operation)) return testing::random_bytes(key_of(rank), bytes);
    std::vector<std::byte> input(bytes);
    testing::store(values(rank), problem_.dtype, input.data());
    return input;
  }
  [[nodiscard]] testing::Comparison compare(int rank, std::span<const std::byte> result) const {
    if (!adds(problem_.operation)) {
      const auto wanted = gathered_output(problem_, rank, [this](int from) { return input(from); });
      return testing::compare_bytes(wanted, result.data());
    }
    const Shard all{0, problem_.rows * problem_.row};
    const Shard part = problem_.operation == Operation::reduce_scatter ? problem_.shard(rank) : all;
    std::vector<std::vector<double>> sources;
    for (int from = 0; from < problem_.ranks; ++from) {
      const std::vector<double> source = values(from);
      const auto begin = source.begin() + part.begin;
      sources.emplace_back(begin, begin + part.count);
    }
    return testing::compare(testing::expected_sum(sources, problem_.dtype), result.data());
  }

 private:
  [[nodiscard]] std::uint64_t key_of(int rank) const { return testing::key(key_, {static_cast<std::uint64_t>(rank)}); }
  [[nodiscard]] std::vector<double> values(int rank) const {
    return testing::random_values(key_of(rank), problem_.input_elements(rank), problem_.dtype);
  }

  CollectiveProblem problem_;
  std::uint64_t key_;
};

}  // namespace

void run_collective_case(Operation operation, Case& self) {
  const Team& team = self.team();
  Random& random = self.random();
  const CollectiveProblem whole = random_problem(operation, self);
  const Form& form = random.pick(forms(operation));
  std::vector<std::string> known = algorithms(operation, form);
  if (!why_no_loans(team).empty()) std::erase(known, "fetch");
  if (!team.device().sends_letters()) std::erase(known, "mail");
  if (!team.device().exchanges_mail()) {
    std::erase_if(known, [](const std::string& name) { return name.starts_with("one_kernel"); });
  }
  if (!team.device().meets()) std::erase(known, "direct_kernel");
  CollectiveOptions options{.algorithm = random.pick(known), .piece_bytes = random.pick(pieces)};
  if (team.device().exchanges_mail() && random.chance(30)) options.sms = static_cast<int>(random.between(1, 40));
  const std::int64_t offset = random.between(0, 3);
  const bool counted = operation == Operation::all_to_all && random.chance(50);
  const bool copies =
      options.algorithm == "auto" || options.algorithm.starts_with("pu") || options.algorithm == "staged";
  const bool few = whole.rows * whole.row * team.size() < most_strided;
  options.strided = !adds(operation) && copies && few && random.chance(40);
  const std::int64_t gap = options.strided ? random.between(1, 5) : 0;

  struct Run {
    CollectiveProblem problem;
    Data data;
    std::vector<std::byte> input;
    CollectiveRun tensors;
  };
  std::deque<Run> runs;
  std::string rows;
  const std::array<Stream, 2> streams{Stream(team.device()), Stream(team.device())};
  const std::int64_t count = random.between(1, 4);
  for (std::int64_t i = 0; i < count; ++i) {
    const CollectiveProblem problem = random_run(whole, i == 0, counted, random);
    rows += format("{}{}", i == 0 ? "" : ", ", problem.rows);
    const Data data(problem, self.key({3, static_cast<std::uint64_t>(i)}));
    runs.push_back({problem, data, data.input(team.rank()), CollectiveRun(team, problem, form, offset, gap)});
    runs.back().tensors.fill(runs.back().input);
  }
  const std::string sms = options.sms ? format(" on {} SMs", *options.sms) : "";
  const std::string apart = options.strided ? format(" with gaps of {}", gap) : "";
  self.describe(format("{} {}, {}{}, pieces of {}, offset {}, rows of {}{}, runs of {} rows{}", name(whole.dtype),
                       form.name, options.algorithm, sms, options.piece_bytes, offset, whole.row, apart, rows,
                       counted ? " with counts" : ""));

  CollectivePlan plan(team, operation, whole.plan_count(), whole.dtype, options);
  team.barrier();  // no rank may write into a peer's tensor before it has been poisoned
  for (Run& run : runs) self.queue(streams, [&](StreamRef stream) { run.tensors(plan, stream); });
  for (const Stream& stream : streams) team.synchronize(stream);

  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i);
    const std::vector<std::byte> result = self.taken(runs[i].tensors.result(), whole.dtype);
    self.expect(runs[i].data.compare(team.rank(), result), number);
    self.expect(runs[i].tensors.kept_its_bounds(runs[i].input), "it changed its input, or wrote outside of its output",
                number);
    if (operation == Operation::all_reduce) self.expect_same_bits(result, number);
  }
}

}  // namespace tandem::tools
