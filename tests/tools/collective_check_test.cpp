// SPDX-License-Identifier: Apache-2.0
#include "tools/collective_check.hpp"

#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "support/ranks.hpp"

namespace tandem::tools {
namespace {

constexpr int runs_at_once = 5;

/// The number of wrong elements after `runs_at_once` runs that are queued together, as in a graph, if only `done` are.
std::int64_t wrong_of_runs(const Team& team, const CollectiveProblem& problem, const Form& form, int done) {
  const Stream stream(team.device());
  CollectivePlan plan(team, problem.operation, problem.plan_count(), problem.dtype, {});
  CollectiveRun run(team, problem, form);
  const auto queue = [&] {
    for (int i = 0; i < done; ++i) run(plan, stream);
  };
  return wrong_elements(team, run, CollectiveData(problem, testing::seed()), {.queue = queue, .runs = runs_at_once},
                        stream, false);
}

void on_each_form(int ranks, void (*check)(const Team&, const CollectiveProblem&, const Form&)) {
  testing::run_ranks(ranks, [check](World& world) {
    for (const Operation operation : {Operation::all_gather, Operation::all_reduce, Operation::all_to_all,
                                      Operation::broadcast, Operation::reduce_scatter}) {
      for (const DType dtype : {f32, f16, bf16, i32}) {
        const CollectiveProblem problem = sized_problem(operation, world.size(), 4096, dtype);
        for (const Form& form : forms(operation)) {
          SCOPED_TRACE(std::string(name(operation)) + " of " + std::string(name(dtype)) + ", " +
                       std::string(form.name));
          check(world.team(), problem, form);
        }
      }
    }
  });
}

TEST(CollectiveCheck, KnowsWhatRunsThatFollowEachOtherInPlaceComeTo) {
  for (const int ranks : {1, 2, 3, 4}) {
    on_each_form(ranks, [](const Team& team, const CollectiveProblem& problem, const Form& form) {
      EXPECT_EQ(wrong_of_runs(team, problem, form, runs_at_once), 0);
    });
  }
}

TEST(CollectiveCheck, SeesARunThatIsMissing) {
  on_each_form(3, [](const Team& team, const CollectiveProblem& problem, const Form& form) {
    const int done = form.in_place && adds(problem.operation) ? runs_at_once - 1 : 0;
    EXPECT_GT(wrong_of_runs(team, problem, form, done), 0);
  });
}

}  // namespace
}  // namespace tandem::tools
