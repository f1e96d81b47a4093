// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "tandem/device/gemm.hpp"
#include "tandem/device/stream.hpp"

#include "linear/row_parallel/layer.hpp"
#include "memory/owners.hpp"
#include "team/reclaimed.hpp"

namespace tandem {

/// The GEMMs of a row-parallel layer: some rows of x by this rank's share of K. Bias and activation are not in them,
/// since they apply to the sum over the ranks, but where `multiply_alone` or `multiply_adding` says so.
class PartialProduct {
 public:
  /// Collective. `adds`: between two ranks, the own rows' GEMMs, which come after the peer's, add what the peer has
  /// sent (own_product_adds).
  PartialProduct(const RowParallelLayer& layer, bool adds);

  [[nodiscard]] const Gemm& gemm() const { return *gemm_; }
  [[nodiscard]] bool adds() const noexcept { return adds_; }
  /// How the GEMMs that add run if they differ from the others, for a plan's `describe`; else empty.
  [[nodiscard]] std::string describe_adding() const {
    return adding_gemm_ ? "of the own rows, " + adding_gemm_->describe() : "";
  }
  /// Owners of what its runs use.
  [[nodiscard]] Owners owners() const;

  /// Begins a run whose GEMMs share the weight. Call before the first GEMM; not for `multiply_alone` and
  /// `multiply_all`.
  void begin() noexcept;
  /// d = alpha · x · Wᵀ of these rows.
  void multiply(const RowParallelOperands& run, Shard rows, std::byte* d, StreamRef stream);
  /// The same of rows that this rank sums, + beta · y.
  void multiply_own(const RowParallelOperands& run, Shard rows, std::byte* d, StreamRef stream);
  /// The same of rows that this rank sums, + `c` + bias, if the product `adds`.
  void multiply_adding(const RowParallelOperands& run, Shard rows, const std::byte* c, std::byte* d, StreamRef stream);
  /// `multiply` of all rows, and `multiply_own` of the own ones; `d` is where the first row goes.
  void multiply_all(const RowParallelOperands& run, std::byte* d, StreamRef stream);
  /// For a team of one: all of y.
  void multiply_alone(const RowParallelOperands& run, StreamRef stream);

 private:
  /// `into` says where the result goes and what is added; the rest of it is set here.
  void run_gemm(Gemm& gemm, Weights& weights, const RowParallelOperands& run, Shard rows, GemmOperands into,
                StreamRef stream) const;

  RowParallelLayer layer_;
  bool adds_;
  Reclaimed<Gemm> gemm_;
  Reclaimed<Gemm> adding_gemm_;  ///< null if gemm_ does it
  // This run's, for the next run of each:
  Weights weights_ = Weights::once;
  Weights adding_weights_ = Weights::once;
};

}  // namespace tandem
