// SPDX-License-Identifier: Apache-2.0
#include "linear/row_parallel/partial_product.hpp"

#include <memory>
#include <span>

#include "tandem/device/trace_range.hpp"
#include "tandem/linear/tuned_product.hpp"

#include "collective/engines.hpp"
#include "linear/local_gemm.hpp"

namespace tandem {
namespace {

/// beta applies only to the own rows, bias and activation only to the sum. A team of one has no sum, so its GEMM
/// includes everything.
GemmSpec partial_product(const LinearSpec& spec, int ranks) {
  GemmSpec gemm = local_gemm(spec);
  if (ranks == 1) return gemm;
  gemm.bias = false;
  gemm.activation = Activation::none;
  return gemm;
}

/// Null if the other GEMMs' does it, too.
std::shared_ptr<Gemm> adding_gemm(const RowParallelLayer& layer, bool adds) {
  if (!adds || !layer.spec.bias) return nullptr;
  return tuned_gemm(layer.team, leaving(layer.choice.leave_sms, local_gemm(layer.spec)));
}

}  // namespace

PartialProduct::PartialProduct(const RowParallelLayer& layer, bool adds)
    : layer_(layer),
      adds_(adds),
      gemm_(layer.team,
            tuned_gemm(layer.team, leaving(layer.choice.leave_sms, partial_product(layer.spec, layer.team.size())))),
      adding_gemm_(layer.team, adding_gemm(layer, adds)) {}

Owners PartialProduct::owners() const {
  Owners owners{gemm_.shared()};
  if (adding_gemm_) owners.push_back(adding_gemm_.shared());
  return owners;
}

void PartialProduct::begin() noexcept {
  weights_ = Weights::first;
  adding_weights_ = Weights::first;
}

void PartialProduct::multiply(const RowParallelOperands& run, Shard rows, std::byte* d, StreamRef stream) {
  run_gemm(*gemm_, weights_, run, rows, {.d = d, .beta = 0.0F}, stream);
}

void PartialProduct::multiply_own(const RowParallelOperands& run, Shard rows, std::byte* d, StreamRef stream) {
  const std::size_t row_bytes = layer_.row_bytes();
  if (layer_.spec.beta != 0.0F && rows.count > 0) {
    const Copy copy{.dst = d,
                    .src = layer_.all_rows(run) + static_cast<std::size_t>(rows.begin) * row_bytes,
                    .bytes = static_cast<std::size_t>(rows.count) * row_bytes};
    enqueue(layer_.team.device(), stream, std::span(&copy, 1), layer_.choice.sms);
  }
  run_gemm(*gemm_, weights_, run, rows, {.d = d, .beta = layer_.spec.beta}, stream);
}

void PartialProduct::multiply_adding(const RowParallelOperands& run, Shard rows, const std::byte* c, std::byte* d,
                                     StreamRef stream) {
  const GemmOperands into{.d = d, .c = c, .bias = run.bias, .beta = 1.0F};
  if (adding_gemm_) {
    run_gemm(*adding_gemm_, adding_weights_, run, rows, into, stream);
  } else {
    run_gemm(*gemm_, weights_, run, rows, into, stream);
  }
}

void PartialProduct::multiply_all(const RowParallelOperands& run, std::byte* d, StreamRef stream) {
  if (layer_.spec.beta == 0.0F) {
    weights_ = Weights::once;
    return multiply(run, {0, run.m}, d, stream);
  }
  const Shard own = layer_.own_rows(run.m);
  const std::int64_t end = own.begin + own.count;
  const auto row = [&](std::int64_t index) { return d + static_cast<std::size_t>(index) * layer_.row_bytes(); };
  weights_ = Weights::first;
  multiply(run, {0, own.begin}, row(0), stream);
  multiply(run, {end, run.m - end}, row(end), stream);
  multiply_own(run, own, row(own.begin), stream);
}

void PartialProduct::multiply_alone(const RowParallelOperands& run, StreamRef stream) {
  weights_ = Weights::once;
  run_gemm(*gemm_, weights_, run, {0, run.m}, {.d = run.y, .bias = run.bias, .beta = layer_.spec.beta}, stream);
}

void PartialProduct::run_gemm(Gemm& gemm, Weights& weights, const RowParallelOperands& run, Shard rows,
                              GemmOperands into, StreamRef stream) const {
  if (rows.count == 0) return;
  const LinearSpec& spec = layer_.spec;
  const bool transposed = spec.x_layout == Layout::transposed;
  const std::int64_t first = transposed ? rows.begin : rows.begin * spec.k;
  into.a = run.x + static_cast<std::size_t>(first) * size_of(spec.dtype);
  into.b = run.weight;
  into.a_scale = run.x_scale + (spec.scaling == Scaling::per_row ? rows.begin : 0);
  into.b_scale = run.weight_scale;
  into.m = rows.count;
  into.lda = transposed ? run.m : 0;
  into.weights = weights;
  const TraceRange range(layer_.team.device(), stream, "GEMM", TraceKind::compute);
  gemm.run(stream, into);
  if (weights == Weights::first) weights = Weights::again;
}

}  // namespace tandem
