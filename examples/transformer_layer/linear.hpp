// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tandem/linear/all_gather_linear.hpp"
#include "tandem/linear/linear_reduce_scatter.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"

namespace tandem::transformer_layer {

/// The sizes of a linear layer, over all ranks: the number of tokens, and W's [outputs, inputs].
struct LinearSizes {
  std::int64_t tokens = 0;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
};

/// A linear layer y = x·Wᵀ that is split over a team's ranks, forward and backward. All tensors are dense, in the
/// layer's dtype, dw too, as in PyTorch; to accumulate many gradients use f32 (LinearSpec::gradient_dtype). "m" is all
/// tokens; m_r, inputs_r and outputs_r are this rank's shards of tokens, inputs and outputs.
class ParallelLinear {
 public:
  virtual ~ParallelLinear() = default;
  ParallelLinear(const ParallelLinear&) = delete;
  ParallelLinear& operator=(const ParallelLinear&) = delete;

  virtual void forward(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream) = 0;
  virtual void input_gradient(const TensorView& dy, const TensorView& weight, const TensorView& dx,
                              StreamRef stream) = 0;
  /// Called after input_gradient with the same dy.
  virtual void weight_gradient(const TensorView& dy, const TensorView& x, const TensorView& dw, StreamRef stream) = 0;
  /// input_gradient, then weight_gradient.
  virtual void backward(const TensorView& dy, const TensorView& weight, const TensorView& x, const TensorView& dx,
                        const TensorView& dw, StreamRef stream);

  /// The algorithms of forward and of the gradients of x and W, such as "pipeline/3".
  struct Algorithms {
    std::string forward;
    std::string input_gradient;
    std::string weight_gradient;
  };
  [[nodiscard]] virtual Algorithms algorithms() const = 0;

 protected:
  ParallelLinear() = default;
};

/// Each rank has all tokens of its share of the outputs. x: [m_r, inputs], W: [outputs_r, inputs], y: [m, outputs_r].
///
/// Forward gathers x; the gradient of x is a partial sum on each rank, which is reduced and scattered. The gradient of
/// W needs every token's x. It is gathered again, overlapped with the gradient of x; or, with options.keep_gathered,
/// kept from the forward pass, which takes the memory of all tokens' x in each such layer.
class ColumnParallel final : public ParallelLinear {
 public:
  /// Collective.
  ColumnParallel(const Team& team, const LinearSizes& sizes, DType dtype, const LinearOptions& options);

  void forward(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream) override;
  void input_gradient(const TensorView& dy, const TensorView& weight, const TensorView& dx, StreamRef stream) override;
  void weight_gradient(const TensorView& dy, const TensorView& x, const TensorView& dw, StreamRef stream) override;
  void backward(const TensorView& dy, const TensorView& weight, const TensorView& x, const TensorView& dx,
                const TensorView& dw, StreamRef stream) override;
  [[nodiscard]] Algorithms algorithms() const override;

 private:
  AllGatherLinear forward_;
  LinearReduceScatter input_gradient_;
  std::optional<LinearWeightGradient> weight_gradient_;
  std::unique_ptr<Gemm> local_weight_gradient_;  // if x was kept: used instead
  bool overlaps_;
};

/// Each rank has all tokens of its share of the inputs. x: [m, inputs_r], W: [outputs, inputs_r], y: [m_r, outputs].
///
/// Forward is a partial sum on each rank, which is reduced and scattered. Backward, dy is gathered for the gradient of
/// x, and the gradient of W is a local GEMM on the gathered dy.
class RowParallel final : public ParallelLinear {
 public:
  /// Collective.
  RowParallel(const Team& team, const LinearSizes& sizes, DType dtype, const LinearOptions& options);

  void forward(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream) override;
  void input_gradient(const TensorView& dy, const TensorView& weight, const TensorView& dx, StreamRef stream) override;
  void weight_gradient(const TensorView& dy, const TensorView& x, const TensorView& dw, StreamRef stream) override;
  [[nodiscard]] Algorithms algorithms() const override;

 private:
  LinearReduceScatter forward_;
  AllGatherLinear input_gradient_;
  std::unique_ptr<Gemm> weight_gradient_;
};

/// One rank's GEMMs for either of them, without the communication: the baseline for a split layer's time. Here `sizes`
/// are this rank's share, and every tensor has all tokens: x: [m, inputs], W: [outputs, inputs], y: [m, outputs].
class LocalLinear final : public ParallelLinear {
 public:
  /// Collective.
  LocalLinear(const Team& team, const LinearSizes& sizes, DType dtype);

  void forward(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream) override;
  void input_gradient(const TensorView& dy, const TensorView& weight, const TensorView& dx, StreamRef stream) override;
  void weight_gradient(const TensorView& dy, const TensorView& x, const TensorView& dw, StreamRef stream) override;
  [[nodiscard]] Algorithms algorithms() const override;

 private:
  std::unique_ptr<Gemm> forward_;
  std::unique_ptr<Gemm> input_gradient_;
  std::unique_ptr<Gemm> weight_gradient_;
};

}  // namespace tandem::transformer_layer
