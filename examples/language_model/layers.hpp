// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"

#include "language_model/parameters.hpp"

namespace tandem::language_model {

/// The sizes of a linear layer, over all ranks: the most tokens, and W's [outputs, inputs].
struct LayerSizes {
  std::int64_t tokens = 0;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
};

// All tensors below are dense, in the model's dtype. A run's number of tokens follows from its arguments, at most
// sizes.tokens; "m" is all of them, "m_r" this rank's shard, shard_of(m, ranks, rank).

/// y = x·Wᵀ, with the whole of W on every rank: each works on its own tokens. The gradient of W is over this rank's
/// tokens only; Parameters::sum_over_ranks sums it.
class Linear {
 public:
  Linear(Parameters& parameters, const std::string& name, const LayerSizes& sizes);

  /// x: [m_r, inputs], y: [m_r, outputs].
  void forward(const TensorView& x, const TensorView& y, StreamRef stream);
  /// x: as it was in `forward`; dy: [m_r, outputs]; dx: [m_r, inputs].
  void backward(const TensorView& x, const TensorView& dy, const TensorView& dx, StreamRef stream);

 private:
  Device& device_;
  const Parameter& weight_;
  std::unique_ptr<Gemm> forward_;
  std::unique_ptr<Gemm> input_gradient_;
  std::unique_ptr<Gemm> weight_gradient_;
};

/// y = activation(before), before = gathered(x)·Wᵀ + b: each rank has all tokens of its share of the outputs.
///
/// Backward, the gradient of x is a partial sum on each rank, which is reduced and scattered. The gradient of W needs
/// every token's x, which is gathered again instead of kept from the forward pass, so that a rank stores only its shard
/// of the tokens.
class ColumnParallel {
 public:
  /// Collective.
  ColumnParallel(Parameters& parameters, const std::string& name, const LayerSizes& sizes, Activation activation);

  /// x: [m_r, inputs]; before, y: [m, outputs_r].
  void forward(const TensorView& x, const TensorView& before, const TensorView& y, StreamRef stream);
  /// x: as it was in `forward`; dbefore: [m, outputs_r]; dx: [m_r, inputs].
  void backward(const TensorView& x, const TensorView& dbefore, const TensorView& dx, StreamRef stream);

  [[nodiscard]] std::int64_t own_outputs() const noexcept { return own_outputs_; }
  /// The plans and their algorithms: a line or two for each plan.
  [[nodiscard]] std::string describe() const;

 private:
  Device& device_;
  const Parameter& weight_;  // [outputs, inputs], split by rows
  const Parameter& bias_;    // [outputs], split
  std::int64_t own_outputs_;
  AllGatherLinear forward_;
  LinearReduceScatter input_gradient_;
  LinearWeightGradient weight_gradient_;
};

/// y += x·Wᵀ + b, where each rank has all tokens of its share of the inputs: the layer's residual addition is free,
/// since the partial results are summed anyway.
///
/// Backward, dy is gathered for the gradient of x, and the gradient of W uses the gathered dy. x is itself an
/// activation, of `before`: its gradient is applied too, as an epilogue of the same GEMM.
class RowParallel {
 public:
  /// Collective.
  RowParallel(Parameters& parameters, const std::string& name, const LayerSizes& sizes, Activation activation);

  /// x: [m, inputs_r]; y: [m_r, outputs].
  void forward(const TensorView& x, const TensorView& y, StreamRef stream);
  /// x: as it was in `forward`; before: the activation's input; dy: [m_r, outputs]; before, dbefore: sizes of x.
  void backward(const TensorView& x, const TensorView& before, const TensorView& dy, const TensorView& dbefore,
                StreamRef stream);

  [[nodiscard]] std::string describe() const;

 private:
  Device& device_;
  const Parameter& weight_;  // [outputs, inputs], split by columns
  const Parameter& bias_;    // [outputs], whole on every rank
  std::int64_t own_inputs_;
  LinearReduceScatter forward_;
  AllGatherLinear input_gradient_;
  std::unique_ptr<Gemm> weight_gradient_;
};

}  // namespace tandem::language_model
