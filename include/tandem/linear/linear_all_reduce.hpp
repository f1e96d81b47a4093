// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/linear/linear_operands.hpp"
#include "tandem/linear/linear_plan.hpp"
#include "tandem/linear/linear_spec.hpp"
#include "tandem/memory/symmetric_tensor.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

/// y[m, n] = activation(Σ over ranks (alpha · x[m, k] · Wᵀ) + beta · y + bias), bitwise identical on every rank: a
/// row-parallel layer without sequence parallelism. `spec.k` is this rank's share of the inputs (it may differ from
/// rank to rank), `spec.n` the whole. With beta, y must be equal on all ranks before the run. Bias and activation apply
/// once, to the sum. Partial results are transferred in y's dtype and summed in fp32, in rank order.
///
/// Two shots: each rank sums the rows that it owns (as LinearReduceScatter does, overlapped in the same way), and the
/// others copy the sums from it, so that no sum is computed twice. If one kernel follows the GEMM (CUDA, "sequence"),
/// each rank sums all rows in two cases: two ranks without an activation, which transfer no more that way, and data so
/// small that a second step would take longer than the sums. With three ranks or more and a larger y, that kernel
/// stores each sum into all ranks' y if y is symmetric; if not, the other ranks copy it from its owner.
class TANDEM_API LinearAllReduce final : public LinearPlan {
 public:
  /// Collective. Throws InvalidArgument or Unsupported (as for more than 64 ranks) before anything is allocated; then,
  /// while memory and peers are set up, OutOfMemory, DeviceError, Timeout, PeerLost or Aborted.
  LinearAllReduce(const Team& team, const LinearSpec& spec, const LinearOptions& options = {});

  /// x: [m, k] or as spec.x_layout says, with m ≤ spec.m; weight: [n, k] or as spec.weight_layout says; y: [m, n]. All
  /// dense, of the spec's dtypes; y must not overlap the inputs.
  void operator()(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream);
  /// With spec.bias: bias is [n], equal on all ranks.
  void operator()(const TensorView& x, const TensorView& weight, const TensorView& bias, const TensorView& y,
                  StreamRef stream);
  /// The same operation into a symmetric y, [m, n], of the plan's team and after its rendezvous; all ranks pass a
  /// symmetric y, or none does.
  void operator()(const TensorView& x, const TensorView& weight, const SymmetricTensor& y, StreamRef stream);
  void operator()(const TensorView& x, const TensorView& weight, const TensorView& bias, const SymmetricTensor& y,
                  StreamRef stream);
  /// The same with operands by name, among them the scales of 8-bit x and W, which may differ from rank to rank. With
  /// Scaling::per_row x_scale is [m].
  void operator()(const LinearOperands& operands, StreamRef stream);
  /// Into this symmetric y; operands.y stays empty.
  void operator()(const LinearOperands& operands, const SymmetricTensor& y, StreamRef stream);

 private:
  class State;
};
static_assert(Owner<LinearAllReduce>);

}  // namespace tandem
