// SPDX-License-Identifier: Apache-2.0
#include "tools/linear_times.hpp"

#include <cstddef>
#include <optional>
#include <vector>

#include "tandem/device/device.hpp"

#include "linear/local_gemm.hpp"
#include "support/oracle.hpp"
#include "tools/collective_run.hpp"
#include "tools/local_product.hpp"
#include "tools/peer_copy.hpp"

namespace tandem::tools {
namespace {

/// The collective that the operation contains.
CollectiveProblem communication(const LinearProblem& problem) {
  const LinearSpec spec = problem.costed_spec(0);  // its k is the width of what is gathered
  switch (problem.kind) {
    case LinearKind::linear_reduce_scatter:
      return {.operation = Operation::reduce_scatter,
              .ranks = problem.ranks,
              .rows = spec.m,
              .row = spec.n,
              .dtype = spec.dtype_of_y()};
    case LinearKind::linear_all_reduce:
      return {.operation = Operation::all_reduce,
              .ranks = problem.ranks,
              .rows = spec.m,
              .row = spec.n,
              .dtype = spec.dtype_of_y()};
    case LinearKind::all_gather_linear:
    case LinearKind::linear_weight_gradient: break;
  }
  return {
      .operation = Operation::all_gather, .ranks = problem.ranks, .rows = spec.m, .row = spec.k, .dtype = spec.dtype};
}

}  // namespace

GemmSpec local_product(const LinearProblem& problem, int rank) {
  const LinearSpec spec = problem.spec(rank);
  return problem.is_gradient() ? local_gradient_gemm(spec) : local_gemm(spec);
}

OverlapTimes measure_linear(const Team& team, const LinearProblem& problem, const QueuedRuns& overlap,
                            const QueuedRuns& sequence, Timing& timing, StreamRef stream,
                            const Repetitions& repetitions, bool wire) {
  LocalProduct product(team, local_product(problem, team.rank()));
  const CollectiveProblem collective = communication(problem);
  CollectivePlan plan(team, collective.operation, collective.plan_count(), collective.dtype, {});
  // In its fastest form: symmetric, and in place if it gathers.
  CollectiveRun comm(team, collective,
                     *form_for(collective.operation, "auto", true, collective.operation == Operation::all_gather));
  comm.fill(repeated_values(2, collective.input_elements(team.rank()), collective.dtype));
  team.barrier();

  OverlapRuns runs{.gemm = timing.queued([&] { product(stream); }, repetitions),
                   .comm = timing.queued([&] { comm(plan, stream); }, repetitions),
                   .sequence = sequence,
                   .overlap = overlap};
  std::optional<PeerCopy> copy;
  if (wire) {
    copy.emplace(team, collective);
    runs.copy = timing.queued([&] { (*copy)(stream); }, repetitions);
  }
  OverlapTimes times = measure_overlap(runs, timing, repetitions);
  if (copy) times.wire = copy->wire_seconds(times.copy);
  return times;
}

}  // namespace tandem::tools
