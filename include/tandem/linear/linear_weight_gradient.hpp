// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "tandem/base/export.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/linear/linear_plan.hpp"

namespace tandem {

/// Which operand of a weight gradient is split over the ranks' tokens and gathered on the way.
enum class GatheredOperand : std::uint8_t { x, dy };

/// dW[n, k] = alpha · dyᵀ[n, m] · x[m, k] + beta · dW: a linear layer's gradient of its weight. One operand is this
/// rank's shard of the tokens and is gathered along the dimension that is summed over: x for a column-parallel layer
/// (dy is whole, spec.n this rank's share), dy for a row-parallel one (x is whole, spec.k this rank's share). Where the
/// gathered tensor is at hand anyway (AllGatherLinear::gathered), a local Gemm does.
///
/// The pipeline: the own shard's product first, then the others' in the order in which they arrive, added to dW in
/// fp32. That reads and writes all of dW again, which a large one makes dearer than the gather that it hides: then the
/// choice is to gather first. Better is to gather before: `start` does it beside whatever comes in front of the run.
///
/// dW is f32, which many small gradients can be added to (beta = 1), or has the layer's own 16 bits, as PyTorch keeps
/// it (spec.gradient_dtype = spec.dtype). Sums are in fp32 either way, and a run rounds once, also what it adds to: in
/// a single product, which then writes half as much; in a pipeline behind its last one, of what it has added up in f32
/// beside dW, in 4·n·k bytes of the plan's own.
class TANDEM_API LinearWeightGradient : public LinearPlan {
 public:
  /// Collective. spec.dtype is of x and dy, spec.gradient_dtype of dW. No bias, no activation, layouts normal: others
  /// are Unsupported. Throws InvalidArgument or Unsupported before anything is allocated; then, while memory and peers
  /// are set up, OutOfMemory, DeviceError, Timeout, PeerLost or Aborted.
  LinearWeightGradient(const Team& team, const LinearSpec& spec, GatheredOperand gathered,
                       const LinearOptions& options = {});
  LinearWeightGradient(LinearWeightGradient&&) noexcept;
  LinearWeightGradient& operator=(LinearWeightGradient&&) noexcept;
  ~LinearWeightGradient();

  /// Gathers for the run that comes next, before its other operand is at hand: what is queued on `stream` behind this
  /// runs beside the gather, and the run is one product then, whatever its algorithm. So a column-parallel layer
  /// gathers x beside the gradient of x, as Transformer Engine does ("bulk overlap"):
  ///
  ///   weight_gradient.start(x, m, stream);
  ///   input_gradient(dy, weight, dx, stream);
  ///   weight_gradient(dy, x, dw, stream);
  ///
  /// `shard`: this rank's m_r rows of the gathered operand, which stay as they are until the run has ended; m: the
  /// tokens of all ranks, 0 to spec.m. All ranks call it. The plan's next run is the one of this shard and m, captured
  /// if this was; if that capture is dropped, so is this. Throws InvalidArgument for any other m, and where that run is
  /// started already; so does a next run of another shard or m, or one that is captured where this was not.
  void start(const TensorView& shard, std::int64_t m, StreamRef stream);

  /// dy: [m, n], x: [m, k], of which the gathered one has this rank's m_r rows; dw: [n, k] of spec.gradient_dtype. All
  /// dense; dw lies apart from the inputs.
  void operator()(const TensorView& dy, const TensorView& x, const TensorView& dw, StreamRef stream);

 private:
  void expect_started(const TensorView& shard, std::int64_t m, StreamRef stream) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem
