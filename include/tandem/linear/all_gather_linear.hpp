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

/// y[m, n] = activation(alpha · gathered(x)[m, k] · Wᵀ + beta · y + bias): the forward pass of a column-parallel layer
/// with sequence parallelism. Each rank passes its shard of the tokens, shard_of(m, ranks, rank), and its own rows of
/// W, [n, k]; `spec.n` is this rank's share of the outputs (it may differ from rank to rank), `spec.k` the whole.
///
/// Pipeline (as in PyTorch's async tensor parallelism and in Flux): shards are pushed to the peers in rank-rotated
/// order while the own shard is multiplied; the others are multiplied in the order in which they arrive, in a few
/// groups of growing size, or in parts of shards if that hides more. On CUDA, without LinearOptions::leave_sms, the
/// GEMMs of runs that are not captured alternate between the caller's stream and one of the plan's (again as in
/// PyTorch), each with its own workspace.
class TANDEM_API AllGatherLinear final : public LinearPlan {
 public:
  /// Collective. Throws InvalidArgument or Unsupported before anything is allocated; then, while memory and peers are
  /// set up, OutOfMemory, DeviceError, Timeout, PeerLost or Aborted.
  AllGatherLinear(const Team& team, const LinearSpec& spec, const LinearOptions& options = {});

  /// x: this rank's shard, [m_r, k] or as spec.x_layout says; weight: [n, k] or as spec.weight_layout says; y: [m, n]
  /// with m ≤ spec.m, which determines this run's number of tokens. All dense, of the spec's dtypes; y must not overlap
  /// the inputs. x may be overwritten after this call in stream order.
  void operator()(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream);
  /// With spec.bias: bias is [n].
  void operator()(const TensorView& x, const TensorView& weight, const TensorView& bias, const TensorView& y,
                  StreamRef stream);
  /// With spec.auxiliary: aux is [m, n]; `output` writes what a later run with `gradient` reads. aux must not overlap
  /// y, nor, as `output`, the inputs. Without spec.bias, bias is an empty view: TensorView().
  void operator()(const TensorView& x, const TensorView& weight, const TensorView& bias, const TensorView& aux,
                  const TensorView& y, StreamRef stream);
  /// The same with operands by name, among them the scales of 8-bit x and W. With Scaling::per_row x_scale is [m_r],
  /// and is gathered as x is.
  void operator()(const LinearOperands& operands, StreamRef stream);

  /// With options.keep_gathered: [m, k], all shards of the last run that this rank called; valid, in stream order,
  /// until this plan's next run or replay. If that call was captured, the view is of each replay's shards: get it
  /// during the capture, since later calls have other views. Scales are not kept. Throws the team's error if the team
  /// has failed, and InvalidArgument without options.keep_gathered or before the first run.
  [[nodiscard]] TensorView gathered() const;

 private:
  class State;
};
static_assert(Owner<AllGatherLinear>);

}  // namespace tandem
