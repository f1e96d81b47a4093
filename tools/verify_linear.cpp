// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <deque>
#include <numeric>
#include <optional>

#include "tandem/device/stream.hpp"

#include "base/format.hpp"
#include "tools/linear_problem.hpp"
#include "tools/verify_case.hpp"

namespace tandem::tools {
namespace {

constexpr std::array dtypes{f32, bf16, f16};
constexpr std::array float8_dtypes{f8e4m3, f8e5m2};
constexpr std::array<std::optional<DType>, 4> float8_out_dtypes{std::nullopt, bf16, f16, f32};
constexpr std::array scalings{Scaling::none, Scaling::per_tensor, Scaling::per_row};
constexpr std::array layouts{Layout::normal, Layout::transposed};
constexpr std::array activations{Activation::none, Activation::gelu_erf, Activation::gelu_tanh};
constexpr std::array auxiliaries{Auxiliary::none, Auxiliary::output, Auxiliary::gradient};
constexpr std::array alphas{1.0F, 0.5F, -2.0F};
constexpr std::array betas{0.0F, 1.0F, -0.5F};

Shape random_shape(Case& self) {
  const bool larger = self.random().chance(8);
  const std::int64_t most = larger ? 400 : 96;
  Shape shape{self.extent(most), self.extent(most), self.extent(most)};
  const std::int64_t work = larger ? 8'000'000 : 400'000;  // multiplications of the reference, which runs on one core
  while (shape.m * shape.n * shape.k > work) {
    std::int64_t& longest = shape.m >= shape.n && shape.m >= shape.k ? shape.m : shape.n >= shape.k ? shape.n : shape.k;
    longest = longest / 2 + 1;
  }
  return shape;
}

/// Gives a layer 8-bit operands: half of the times in sizes and layouts that a GPU's library takes.
void make_float8(LinearProblem& problem, Random& random) {
  problem.dtype = random.pick(float8_dtypes);
  problem.tf32 = false;
  problem.float8 = {.weight_dtype = random.pick(float8_dtypes),
                    .out_dtype = random.pick(float8_out_dtypes),
                    .scaling = random.pick(scalings),
                    .fast_accum = random.chance(30)};
  if (random.chance(50)) return;
  const std::int64_t step = std::int64_t{16} * problem.ranks;
  for (std::int64_t* const extent : {&problem.shape.n, &problem.shape.k}) *extent = (*extent + step - 1) / step * step;
  problem.x_layout = Layout::normal;
  problem.weight_layout = Layout::normal;
}

LinearProblem random_problem(Operation operation, Case& self) {
  Random& random = self.random();
  LinearProblem problem{.kind = linear_kind(operation),
                        .shape = random_shape(self),
                        .ranks = self.team().size(),
                        .dtype = random.pick(dtypes),
                        .device = self.team().device().id().type};
  problem.tf32 = problem.dtype == f32 && random.chance(30);
  problem.alpha = random.pick(alphas);
  problem.beta = random.pick(betas);
  if (problem.is_gradient()) {
    problem.gathered = random.chance(50) ? GatheredOperand::x : GatheredOperand::dy;
    problem.gradient_dtype = random.chance(50) ? problem.dtype : f32;
    return problem;
  }
  problem.x_layout = random.pick(layouts);
  problem.weight_layout = random.pick(layouts);
  problem.bias = random.chance(50);
  problem.activation = random.pick(activations);
  if (problem.kind == LinearKind::all_gather_linear && problem.activation != Activation::none) {
    problem.auxiliary = random.pick(auxiliaries);
  }
  problem.symmetric_output = problem.kind == LinearKind::linear_all_reduce && random.chance(30);
  if (random.chance(25)) make_float8(problem, random);
  return problem;
}

LinearOptions random_options(const LinearProblem& problem, Random& random) {
  std::vector<std::string> algorithms = linear_algorithms(problem.kind);
  algorithms.insert(algorithms.begin(), "auto");
  LinearOptions options{.algorithm = random.pick(algorithms)};
  const bool may_have_groups = options.algorithm == "auto" || has_groups(options.algorithm);
  if (may_have_groups && problem.ranks > 1 && random.chance(40)) {
    options.groups = static_cast<int>(random.between(1, most_groups(problem.kind, problem.spec(0), problem.ranks)));
  }
  options.keep_gathered =
      problem.kind == LinearKind::all_gather_linear && problem.x_layout == Layout::normal && random.chance(30);
  if (random.chance(20)) {
    const bool gathers =
        problem.kind == LinearKind::all_gather_linear || problem.kind == LinearKind::linear_weight_gradient;
    options.sms = static_cast<int>(random.between(gathers ? 0 : 1, 40));
  }
  if (random.chance(10)) options.leave_sms = static_cast<int>(random.between(1, 8));
  return options;
}

std::vector<std::int64_t> numbers(const Shard& range) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(range.count));
  std::iota(all.begin(), all.end(), range.begin);
  return all;
}

std::vector<std::byte> gathered_x(const LinearProblem& problem) {
  const auto& [m, n, k] = problem.shape;
  std::vector<std::byte> bytes(static_cast<std::size_t>(m * k) * size_of(problem.dtype));
  testing::store(problem.values(LinearProblem::Operand::x, {{0, m}, {0, k}}), problem.dtype, bytes.data());
  return bytes;
}

}  // namespace

void run_linear_case(Operation operation, Case& self) {
  const Team& team = self.team();
  Random& random = self.random();
  const LinearProblem whole = random_problem(operation, self);
  const LinearOptions options = random_options(whole, random);

  // A plan supports any number of tokens up to its own; consecutive runs overlap, on one stream or on two.
  std::vector<LinearProblem> problems;
  std::string tokens;
  for (std::int64_t runs = random.between(1, 4); runs > 0; --runs) {
    LinearProblem problem = whole;
    if (!problems.empty()) problem.shape.m = random.between(0, whole.shape.m);
    problem.key = self.key({3, problems.size()});
    tokens += format("{}{}", tokens.empty() ? "" : ", ", problem.shape.m);
    problems.push_back(problem);
  }
  self.describe(format("{}{}{}{}{}{}, runs of {} tokens", to_string(whole.spec(team.rank())),
                       options.algorithm == "auto" ? "" : ", " + options.algorithm,
                       options.groups ? format(", {} groups", *options.groups) : "",
                       options.sms ? format(", on {} SMs", *options.sms) : "",
                       options.leave_sms != 0 ? format(", leaving {} SMs", options.leave_sms) : "",
                       whole.symmetric_output ? ", into a symmetric tensor" : "", tokens));

  const std::array<Stream, 2> streams{Stream(team.device()), Stream(team.device())};
  LinearPlanOfAnyKind plan(team, whole, options);
  std::deque<LinearRun> runs;
  for (const LinearProblem& problem : problems) runs.emplace_back(team, problem);
  TensorView gathered;  // by the last run
  for (LinearRun& run : runs) {
    self.queue(streams, [&](StreamRef stream) {
      run(plan, stream);
      if (options.keep_gathered) gathered = plan.gathered();  // of a captured run, only now
    });
  }
  for (const Stream& stream : streams) team.synchronize(stream);

  for (std::size_t i = 0; i < runs.size(); ++i) {
    const LinearProblem& problem = problems[i];
    const auto number = static_cast<std::int64_t>(i);
    const std::vector<std::byte> result = self.taken(runs[i].result(), problem.output_dtype());
    const LinearProblem::Block block = problem.output(team.rank());
    self.expect(testing::compare(problem.expected(numbers(block.rows), numbers(block.columns)), result.data()), number);
    self.expect(runs[i].kept_its_bounds(), "it changed an operand, or wrote outside of its output", number);
    if (problem.auxiliary == Auxiliary::output) {
      LinearProblem before = problem;
      before.activation = Activation::none;
      const std::vector<std::byte> kept = runs[i].auxiliary();
      self.expect(testing::compare(before.expected(numbers(block.rows), numbers(block.columns)), kept.data()), number);
    }
    if (problem.kind == LinearKind::linear_all_reduce) self.expect_same_bits(result, number);
  }
  if (options.keep_gathered) {
    std::vector<std::byte> found(gathered.bytes());
    if (!found.empty()) team.device().download(found.data(), gathered.data(), found.size());
    self.expect(found == gathered_x(problems.back()), "gathered() is not all ranks' x",
                static_cast<std::int64_t>(runs.size()) - 1);
  }
}

}  // namespace tandem::tools
