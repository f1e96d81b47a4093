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

/// dW[n, k] = alpha · dyᵀ[n, m] · x[m, k] + beta · dW, in fp32: a linear layer's gradient of its weight. One operand is
/// this rank's shard of the tokens and is gathered along the dimension that is summed over: x for a column-parallel
/// layer (dy is whole, spec.n this rank's share), dy for a row-parallel one (x is whole, spec.k this rank's share).
/// Where the gathered tensor is at hand anyway (AllGatherLinear::gathered), a local Gemm does.
///
/// The pipeline: the own shard's product first, then the others' in the order in which they arrive, added to dW in
/// fp32.
class TANDEM_API LinearWeightGradient : public LinearPlan {
 public:
  /// Collective. spec.dtype is of x and dy; dW is f32. No bias, no activation, layouts normal: anything else is
  /// Unsupported.
  LinearWeightGradient(const Team& team, const LinearSpec& spec, GatheredOperand gathered,
                       const LinearOptions& options = {});
  LinearWeightGradient(LinearWeightGradient&&) noexcept;
  LinearWeightGradient& operator=(LinearWeightGradient&&) noexcept;
  ~LinearWeightGradient();

  /// dy: [m, n], x: [m, k], of which the gathered one has this rank's m_r rows; dw: f32 [n, k]. All dense.
  void operator()(const TensorView& dy, const TensorView& x, const TensorView& dw, StreamRef stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem
