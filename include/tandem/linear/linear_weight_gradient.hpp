// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/linear/linear_plan.hpp"
#include "tandem/linear/linear_spec.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

/// The operand of a weight gradient that is split over the ranks by tokens, and gathered.
enum class GatheredOperand : std::uint8_t { x, dy };

/// dW[n, k] = alpha · dyᵀ[n, m] · x[m, k] + beta · dW: a linear layer's gradient of its weight. One operand is this
/// rank's shard of the tokens and is gathered along the dimension that is summed over: x for a column-parallel layer
/// (dy is whole, spec.n this rank's share), dy for a row-parallel one (x is whole, spec.k this rank's share). If the
/// gathered tensor already exists (AllGatherLinear::gathered), use a local Gemm instead.
///
/// Pipeline: the own shard's GEMM first, then the others' in the order in which they arrive, accumulated into dW in
/// fp32. Each GEMM rereads and rewrites dW, which for a large dW costs more than the gather that it hides: then the
/// choice is to gather first. Better still is to gather earlier: `start` overlaps the gather with what precedes the
/// run.
///
/// The gradient of a bias is the sum of dy over the tokens: Device::column_sum, and if dy is split by tokens, an
/// all_reduce of that.
///
/// dW is f32, to accumulate many small gradients (beta = 1), or has the layer's 16-bit dtype, as in PyTorch
/// (spec.gradient_dtype = spec.dtype). Either way a run sums in fp32 and rounds once, including the dW it adds to: a
/// single GEMM as it stores (half the bytes), a pipeline after its last GEMM, from its own 4·n·k bytes of f32 sums.
class TANDEM_API LinearWeightGradient final : public LinearPlan {
 public:
  /// Collective. spec.dtype is the dtype of x and dy, spec.gradient_dtype that of dW. No bias, no activation, layouts
  /// normal: anything else is Unsupported. Throws InvalidArgument or Unsupported before anything is allocated; then,
  /// while memory and peers are set up, OutOfMemory, DeviceError, Timeout, PeerLost or Aborted.
  LinearWeightGradient(const Team& team, const LinearSpec& spec, GatheredOperand gathered,
                       const LinearOptions& options = {});

  /// Starts the gather of the next run, before its other operand exists: work queued on `stream` after this runs
  /// concurrently with the gather, and the run is then a single GEMM, whatever its algorithm. So a column-parallel
  /// layer overlaps the gather of x with the gradient of x, as Transformer Engine does ("bulk overlap"):
  ///
  ///   weight_gradient.start(x, m, stream);
  ///   input_gradient(dy, weight, dx, stream);
  ///   weight_gradient(dy, x, dw, stream);
  ///
  /// `shard`: this rank's m_r rows of the gathered operand, unchanged until the run has ended; m: the tokens of all
  /// ranks, 0 to spec.m. Called by every rank. The plan's next run must have this shard and m, and be captured if and
  /// only if this was (in the same capture; if that is dropped, so is the start). Throws InvalidArgument for any other
  /// m, or if a run is already started; the next run throws it if its shard, m or capture differ.
  void start(const TensorView& shard, std::int64_t m, StreamRef stream);

  /// dy: [m, n], x: [m, k]; of the gathered one only this rank's m_r rows; dw: [n, k] of spec.gradient_dtype. All
  /// dense; dw must not overlap the inputs.
  void operator()(const TensorView& dy, const TensorView& x, const TensorView& dw, StreamRef stream);

 private:
  class State;
};
static_assert(Owner<LinearWeightGradient>);

}  // namespace tandem
