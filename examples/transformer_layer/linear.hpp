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

/// The sizes of a linear layer, over all ranks: how many tokens, and W's [outputs, inputs].
struct LinearSizes {
  std::int64_t tokens = 0;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
};

/// A linear layer y = x·Wᵀ that is split over a team's ranks, and its way back. All tensors are dense, in the layer's
/// dtype, dw too, as PyTorch has it: who adds up many gradients wants f32 (LinearSpec::gradient_dtype). "m" is all
/// tokens; m_r, inputs_r and outputs_r are this rank's shard_rows of tokens, inputs and outputs.
class ParallelLinear {
 public:
  virtual ~ParallelLinear() = default;
  ParallelLinear(const ParallelLinear&) = delete;
  ParallelLinear& operator=(const ParallelLinear&) = delete;

  virtual void forward(const TensorView& x, const TensorView& weight, const TensorView& y, StreamRef stream) = 0;
  virtual void input_gradient(const TensorView& dy, const TensorView& weight, const TensorView& dx,
                              StreamRef stream) = 0;
  /// After input_gradient of the same dy.
  virtual void weight_gradient(const TensorView& dy, const TensorView& x, const TensorView& dw, StreamRef stream) = 0;
  /// Both, one after the other.
  virtual void backward(const TensorView& dy, const TensorView& weight, const TensorView& x, const TensorView& dx,
                        const TensorView& dw, StreamRef stream);

  /// How forward, the gradient of x and that of W run, in a few words each: "pipeline/3".
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
/// Forward gathers x; the gradient of x is a partial sum on each rank, which is reduced and scattered on its way. The
/// gradient of W needs every token's x. It is gathered a second time, beside the gradient of x; or with
/// options.keep_gathered kept since the forward pass, which takes the memory of all tokens' x in each such layer.
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
  std::unique_ptr<Gemm> local_weight_gradient_;  // where x was kept, in its place
  bool overlaps_;
};

/// Each rank has all tokens of its share of the inputs. x: [m, inputs_r], W: [outputs, inputs_r], y: [m_r, outputs].
///
/// Forward is a partial sum on each rank, which is reduced and scattered on its way. Going back, dy is gathered for the
/// gradient of x, and the gradient of W is a local product that uses what was gathered.
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

/// What one rank multiplies for either of them, without the communication: what a split layer's time is compared with.
/// Here `sizes` are this rank's share, and every tensor has all tokens: x: [m, inputs], W: [outputs, inputs], y: [m,
/// outputs].
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
