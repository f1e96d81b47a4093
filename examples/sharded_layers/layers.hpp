// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tandem/base/dtype.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/gemm.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/sharded/sharded_spec.hpp"

namespace tandem::sharded_layers {

struct Sizes {
  int layers = 0;
  std::int64_t tokens = 0;  ///< of each rank
  std::int64_t hidden = 0;
  std::int64_t mlp = 0;
  DType dtype = f32;
  DType gradient_dtype = f32;  ///< of the gradients of weights
  DType shard_dtype = f32;     ///< of the shards: `dtype`, or f32
};

/// The two weights of a layer, as a group of sharded parameters: up [mlp, hidden] and down [hidden, mlp].
[[nodiscard]] ParameterGroup layer_parameters(const Sizes& sizes);

/// The MLPs of a transformer, one behind the other, on one rank: y = gelu(x · upᵀ) · downᵀ. The weights are given with
/// each call; activations are kept from the forward pass for the backward pass.
class Layers {
 public:
  Layers(const std::shared_ptr<Device>& device, const Sizes& sizes, unsigned seed);

  void forward(int layer, std::span<const TensorView> weights, StreamRef stream);
  /// Behind the backward pass of the next layer, or as the first one, from a loss whose gradient is fixed.
  void backward(int layer, std::span<const TensorView> weights, std::span<const TensorView> gradients,
                StreamRef stream);

 private:
  [[nodiscard]] void* y_gradient(int layer) const noexcept {
    return layer + 1 == sizes_.layers ? loss_gradient_.data()
                                      : gradients_[static_cast<std::size_t>(layer + 1) % 2].data();
  }

  std::shared_ptr<Device> device_;
  Sizes sizes_;
  std::unique_ptr<Gemm> up_, down_, up_gradient_, down_gradient_, mlp_gradient_, x_gradient_;
  std::vector<Buffer> x_;            ///< of each layer, and the last one's y
  std::vector<Buffer> before_;       ///< the inputs of each layer's GELU
  std::vector<Buffer> after_;        ///< its outputs
  Buffer between_;                   ///< the gradient of `before_`
  std::array<Buffer, 2> gradients_;  ///< of x, in turns
  Buffer loss_gradient_;
};

}  // namespace tandem::sharded_layers
