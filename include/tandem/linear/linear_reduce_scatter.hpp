// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/linear/linear_operands.hpp"
#include "tandem/linear/linear_plan.hpp"
#include "tandem/linear/linear_spec.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

/// y[m_r, n] = activation(Σ over ranks (alpha · x[m, k] · Wᵀ) + beta · y + bias), only rows shard_of(m, ranks, rank)
/// on each rank: the forward pass of a row-parallel layer with sequence parallelism, and a column-parallel layer's
/// gradient of x. `spec.k` is this rank's share of the inputs (it may differ from rank to rank), `spec.n` the whole.
/// Bias and activation apply once, to the sum. Partial results are transferred in y's dtype and summed in fp32, in
/// rank order.
///
/// Pipeline: rows are multiplied in the order of their owners, from the next rank's to this rank's own; each group is
/// pushed to its owners while the next one is multiplied, and one reduction follows at the end. Between two ranks (in
/// two groups or more, without beta and activation) the GEMMs of the own rows add what the peer has sent instead.
///
/// Direct: a GEMM for each peer's rows, in the same order, stores its results directly into the peer's memory, so that
/// nothing is copied and rows are transferred as they are computed. Fused kernels do this in their epilogue (Flux,
/// arXiv:2406.06858); here whole GEMMs do.
class TANDEM_API LinearReduceScatter final : public LinearPlan {
 public:
  /// Collective. Throws InvalidArgument or Unsupported (as for more than 64 ranks) before anything is allocated; then,
  /// while memory and peers are set up, OutOfMemory, DeviceError, Timeout, PeerLost or Aborted.
  LinearReduceScatter(const Team& team, const LinearSpec& spec, const LinearOptions& options = {});

  /// x: [m, k] or as spec.x_layout says, with m ≤ spec.m; weight: [n, k] or as spec.weight_layout says; y: [m_r, n].
  /// All dense, of the spec's dtypes; y must not overlap the inputs.
  void operator()(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream);
  /// With spec.bias: bias is [n], equal on all ranks.
  void operator()(const TensorView& x, const TensorView& weight, const TensorView& bias, const TensorView& y,
                  StreamRef stream);
  /// The same with operands by name, among them the scales of 8-bit x and W, which may differ from rank to rank. With
  /// Scaling::per_row x_scale is [m].
  void operator()(const LinearOperands& operands, StreamRef stream);

 private:
  class State;
};
static_assert(Owner<LinearReduceScatter>);

}  // namespace tandem
