// SPDX-License-Identifier: Apache-2.0
#include "tools/linear_times.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "tandem/device/device.hpp"

#include "linear/local_gemm.hpp"
#include "support/oracle.hpp"
#include "tools/collective_run.hpp"

namespace tandem::tools {
namespace {

/// Random data, the same 2^16 values over and over: a GPU's clocks depend on the bits that toggle.
Buffer random_buffer(const Team& team, std::int64_t elements, DType dtype) {
  constexpr std::int64_t tile = 1 << 16;
  Buffer buffer(team.shared_device(), static_cast<std::size_t>(elements) * size_of(dtype));
  std::vector<std::byte> values(static_cast<std::size_t>(tile) * size_of(dtype));
  testing::store(testing::random_values(1, tile, dtype), dtype, values.data());
  for (std::size_t at = 0; at < buffer.bytes(); at += values.size()) {
    team.device().upload(buffer.data_as<std::byte>() + at, values.data(), std::min(values.size(), buffer.bytes() - at));
  }
  return buffer;
}

class LocalProduct {
 public:
  LocalProduct(const Team& team, const LinearProblem& problem) {
    const GemmSpec gemm = local_product(problem, team.rank());
    a_ = random_buffer(team, gemm.m * gemm.k, gemm.dtype);
    b_ = random_buffer(team, gemm.n * gemm.k, gemm.dtype);
    d_ = Buffer(team.shared_device(), static_cast<std::size_t>(gemm.m * gemm.n) * size_of(gemm.out_dtype));
    gemm_ = team.device().gemm(gemm);
  }
  void operator()(StreamRef stream) { gemm_->run(stream, {.a = a_.data(), .b = b_.data(), .d = d_.data()}); }

 private:
  Buffer a_;
  Buffer b_;
  Buffer d_;
  std::unique_ptr<Gemm> gemm_;
};

/// The collective that the operation contains, in its best form.
CollectiveProblem communication(const LinearProblem& problem) {
  const LinearSpec spec = problem.spec(0);
  switch (problem.kind) {
    case LinearKind::linear_reduce_scatter:
      return {.operation = Operation::reduce_scatter,
              .ranks = problem.ranks,
              .rows = spec.m,
              .row = spec.n,
              .dtype = spec.dtype};
    case LinearKind::linear_all_reduce:
      return {.operation = Operation::all_reduce,
              .ranks = problem.ranks,
              .rows = spec.m,
              .row = spec.n,
              .dtype = spec.dtype};
    case LinearKind::all_gather_linear:
    case LinearKind::linear_weight_gradient: break;
  }
  return {
      .operation = Operation::all_gather, .ranks = problem.ranks, .rows = spec.m, .row = spec.k, .dtype = spec.dtype};
}

}  // namespace

GemmSpec local_product(const LinearProblem& problem, int rank) {
  const LinearSpec spec = problem.spec(rank);
  if (problem.is_gradient()) {
    return {.m = spec.n, .n = spec.k, .k = spec.m, .transpose_a = true, .dtype = spec.dtype, .out_dtype = f32};
  }
  return local_gemm(spec);
}

LinearTimes measure_linear(const Team& team, const LinearProblem& problem, const LinearRun& run,
                           LinearPlanOfAnyKind& overlap, LinearPlanOfAnyKind& sequence, Timing& timing,
                           StreamRef stream, int warmup, int iterations) {
  LocalProduct product(team, problem);
  const CollectiveProblem collective = communication(problem);
  CollectivePlan plan(team, collective.operation, collective.plan_count(), collective.dtype, {});
  // In its best form: symmetric, and a gather in place.
  CollectiveRun comm(team, collective,
                     *form_for(collective.operation, "auto", true, collective.operation == Operation::all_gather));
  std::vector<std::byte> data(static_cast<std::size_t>(collective.input_elements(team.rank())) *
                              size_of(collective.dtype));
  testing::store(testing::random_values(2, collective.input_elements(team.rank()), collective.dtype), collective.dtype,
                 data.data());
  comm.fill(data);
  team.barrier();

  const std::array<std::function<void()>, 4> bodies{[&] { product(stream); }, [&] { comm(plan, stream); },
                                                    [&] { run(sequence, stream); }, [&] { run(overlap, stream); }};
  for (int i = 0; i < warmup; ++i) {
    for (const auto& body : bodies) timing.measure(body);
  }
  static_cast<void>(timing.collect());
  for (int i = 0; i < iterations; ++i) {
    for (const auto& body : bodies) timing.measure(body);
  }
  std::array<std::vector<double>, 4> taken;
  const std::vector<double> all = timing.collect();
  for (std::size_t i = 0; i < all.size(); ++i) taken[i % taken.size()].push_back(all[i]);
  return {.gemm = median(taken[0]),
          .comm = median(taken[1]),
          .sequence = median(taken[2]),
          .overlap = median(taken[3]),
          .overlap_p99 = percentile(taken[3], 99)};
}

}  // namespace tandem::tools
