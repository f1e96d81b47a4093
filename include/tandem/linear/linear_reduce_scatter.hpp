// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "tandem/base/export.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/linear/linear_plan.hpp"

namespace tandem {

/// y[m_r, n] = activation(Σ over ranks (alpha · x[m, k] · Wᵀ) + beta · y + bias), rows shard_rows(m, ranks, rank) of
/// it: the forward pass of a row-parallel layer with sequence parallelism, and a column-parallel layer's gradient of x.
/// `spec.k` is this rank's share of the inputs (it may differ from rank to rank), `spec.n` the whole. Bias and
/// activation apply once, to the sum. Partial products travel in spec.dtype and are added in fp32, in rank order.
///
/// The pipeline: rows are multiplied in the order of their owners, beginning with the next rank's and ending with the
/// own; each group is pushed to its owners while the next one is multiplied, and one reduction ends it. Between two
/// ranks (in two groups or more, without beta and activation) products of the own rows add what the other has sent,
/// instead.
///
/// Direct: a product for each peer's rows, in the same order, stores its results straight into the peer's memory, so
/// that nothing is copied and rows travel as they are computed. That is what fused kernels do in their epilogue (Flux,
/// arXiv:2406.06858), with whole products.
class TANDEM_API LinearReduceScatter : public LinearPlan {
 public:
  /// Collective. Throws InvalidArgument or Unsupported (as for more than 64 ranks) before anything is allocated; then,
  /// while memory and peers are set up, OutOfMemory, DeviceError, Timeout, PeerLost or Aborted.
  LinearReduceScatter(const Team& team, const LinearSpec& spec, const LinearOptions& options = {});
  LinearReduceScatter(LinearReduceScatter&&) noexcept;
  LinearReduceScatter& operator=(LinearReduceScatter&&) noexcept;
  ~LinearReduceScatter();

  /// x: [m, k] or as spec.x says, with m ≤ spec.m; weight: [n, k] or as spec.weight says; y: [m_r, n]. All dense, of
  /// spec.dtype; y lies apart from the inputs.
  void operator()(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream);
  /// With spec.bias: bias is [n], equal on all ranks.
  void operator()(const TensorView& x, const TensorView& weight, const TensorView& bias, const TensorView& y,
                  StreamRef stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem
