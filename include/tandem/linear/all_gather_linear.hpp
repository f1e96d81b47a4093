// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "tandem/base/export.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/linear/linear_plan.hpp"

namespace tandem {

/// y[m, n] = activation(alpha · gathered(x)[m, k] · Wᵀ + beta · y + bias): the forward pass of a column-parallel layer
/// with sequence parallelism. Each rank gives its shard of the tokens, shard_rows(m, ranks, rank) of them, and has its
/// own W, [n, k], of the layer's outputs; `spec.n` is this rank's share (it may differ from rank to rank), `spec.k` the
/// whole.
///
/// The pipeline (as in PyTorch's async tensor parallelism and in Flux): shards are pushed to the peers in rank-rotated
/// order while the own shard is multiplied; the others follow in the order in which they arrive, in few growing groups,
/// or in parts of shards where that hides more. On CUDA the products take turns on the caller's stream and on one of
/// the plan's (again as in PyTorch), each of them with a workspace of its own; not with LinearOptions::leave_sms.
class TANDEM_API AllGatherLinear : public LinearPlan {
 public:
  /// Collective. Throws InvalidArgument or Unsupported before anything is allocated; then, while memory and peers are
  /// set up, OutOfMemory, DeviceError, Timeout, PeerLost or Aborted.
  AllGatherLinear(const Team& team, const LinearSpec& spec, const LinearOptions& options = {});
  AllGatherLinear(AllGatherLinear&&) noexcept;
  AllGatherLinear& operator=(AllGatherLinear&&) noexcept;
  ~AllGatherLinear();

  /// x: this rank's shard, [m_r, k] or as spec.x says; weight: [n, k] or as spec.weight says; y: [m, n] with m ≤
  /// spec.m, which says how many tokens this run has. All dense, of spec.dtype; y lies apart from the inputs. x may be
  /// written again after this in stream order.
  void operator()(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream);
  /// With spec.bias: bias is [n].
  void operator()(const TensorView& x, const TensorView& weight, const TensorView& bias, const TensorView& y,
                  StreamRef stream);
  /// With spec.auxiliary: aux is [m, n], and `output` is what a later run with `gradient` reads. aux lies apart from
  /// y, and as `output` from the inputs too. Without spec.bias, bias is an empty view: TensorView().
  void operator()(const TensorView& x, const TensorView& weight, const TensorView& bias, const TensorView& aux,
                  const TensorView& y, StreamRef stream);

  /// With options.keep_gathered: [m, k], all shards of the run that this rank called last; valid, in stream order,
  /// until this plan's next run or replay. Where that call was captured, the view is of each replay's shards: take it
  /// during the capture, since later calls have views of their own. Throws what made the team fail, if it has, and
  /// InvalidArgument without options.keep_gathered or before the first run.
  [[nodiscard]] TensorView gathered() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem
