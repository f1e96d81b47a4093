// SPDX-License-Identifier: Apache-2.0
#include "tools/linear_check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "support/oracle.hpp"
#include "tools/bench.hpp"
#include "tools/corruption.hpp"

namespace tandem::tools {
namespace {

/// Up to `most` indices from `range`, evenly spaced, including both ends.
std::vector<std::int64_t> spread(const Shard& range, std::int64_t most) {
  const std::int64_t count = std::min(range.count, most);
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    numbers.push_back(range.begin + (count == 1 ? 0 : i * (range.count - 1) / (count - 1)));
  }
  return numbers;
}

/// The number of wrong elements in this rank's output: of all for small outputs, else of a grid of rows and columns
/// that includes every rank's part; and in any case, elements that were not written.
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
    // Poison is all ones: a NaN that no sum produces.
    const std::vector<std::byte> poison(element, std::byte{0xff});
    for (std::size_t at = 0; at < result.size(); at += element) {
      if (std::memcmp(result.data() + at, poison.data(), element) == 0) ++wrong;
    }
  }
  return wrong;
}

}  // namespace

bool is_checked_whole(const LinearProblem& problem, int rank) {
  constexpr std::int64_t small = 1 << 24;  // multiplications
  const LinearProblem::Block block = problem.output(rank);
  const std::int64_t depth = problem.is_gradient() ? problem.shape.m : problem.shape.k;
  return block.elements() == 0 || depth <= small / block.elements();
}

std::int64_t wrong_elements(const Team& team, const LinearProblem& problem, LinearRun& run,
                            const std::function<void()>& body, StreamRef stream, bool corrupted) {
  run.reset_output();
  team.barrier();
  body();
  team.synchronize(stream);
  std::vector<std::byte> result = run.result();
  if (corrupted) corrupt(result, problem.output_dtype());
  std::int64_t wrong = wrong_here(result, problem, team.rank());
  if (problem.auxiliary == Auxiliary::output) {
    LinearProblem before = problem;
    before.activation = Activation::none;
    wrong += wrong_here(run.auxiliary(), before, team.rank());
  }
  return count_over_ranks(team, wrong);
}

}  // namespace tandem::tools
