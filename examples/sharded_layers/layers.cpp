// SPDX-License-Identifier: Apache-2.0
#include "sharded_layers/layers.hpp"

#include <cstddef>

#include "tandem/device/trace_range.hpp"

#include "common/random_values.hpp"

namespace tandem::sharded_layers {

ParameterGroup layer_parameters(const Sizes& sizes) {
  return {"layer", {{"up", {sizes.mlp, sizes.hidden}}, {"down", {sizes.hidden, sizes.mlp}}}};
}

Layers::Layers(const std::shared_ptr<Device>& device, const Sizes& sizes, unsigned seed)
    : device_(device), sizes_(sizes) {
  const auto buffer = [&](std::int64_t columns) {
    return Buffer(device, static_cast<std::size_t>(sizes.tokens * columns) * size_of(sizes.dtype));
  };
  const auto gemm = [&](GemmSpec spec, DType out) {
    spec.dtype = sizes.dtype;
    spec.out_dtype = out;
    return device->gemm(spec);
  };
  const auto [layers, m, h, f, dtype, gradient_dtype, shard_dtype] = sizes;
  up_ = gemm({.m = m,
              .n = f,
              .k = h,
              .transpose_b = true,
              .activation = Activation::gelu_tanh,
              .auxiliary = Auxiliary::output},
             dtype);
  down_ = gemm({.m = m, .n = h, .k = f, .transpose_b = true}, dtype);
  mlp_gradient_ =
      gemm({.m = m, .n = f, .k = h, .activation = Activation::gelu_tanh, .auxiliary = Auxiliary::gradient}, dtype);
  x_gradient_ = gemm({.m = m, .n = h, .k = f}, dtype);
  up_gradient_ = gemm({.m = f, .n = h, .k = m, .transpose_a = true}, gradient_dtype);
  down_gradient_ = gemm({.m = h, .n = f, .k = m, .transpose_a = true}, gradient_dtype);
  for (int layer = 0; layer <= layers; ++layer) x_.push_back(buffer(h));
  for (int layer = 0; layer < layers; ++layer) {
    before_.push_back(buffer(f));
    after_.push_back(buffer(f));
  }
  between_ = buffer(f);
  for (Buffer& each : gradients_) each = buffer(h);
  loss_gradient_ = buffer(h);
  examples::fill_randomly(*device, x_.front().view({m, h}, dtype), seed, 1);
  examples::fill_randomly(*device, loss_gradient_.view({m, h}, dtype), seed + 1, 1);
}

void Layers::forward(int layer, std::span<const TensorView> weights, StreamRef stream) {
  const TraceRange range(*device_, stream, "forward", TraceKind::compute);
  const auto at = static_cast<std::size_t>(layer);
  up_->run(stream, {.a = x_[at].data(), .b = weights[0].data(), .d = after_[at].data(), .aux = before_[at].data()});
  down_->run(stream, {.a = after_[at].data(), .b = weights[1].data(), .d = x_[at + 1].data()});
}

void Layers::backward(int layer, std::span<const TensorView> weights, std::span<const TensorView> gradients,
                      StreamRef stream) {
  const TraceRange range(*device_, stream, "backward", TraceKind::compute);
  const auto at = static_cast<std::size_t>(layer);
  void* const dy = y_gradient(layer);
  down_gradient_->run(stream, {.a = dy, .b = after_[at].data(), .d = gradients[1].data()});
  mlp_gradient_->run(stream, {.a = dy, .b = weights[1].data(), .d = between_.data(), .aux = before_[at].data()});
  up_gradient_->run(stream, {.a = between_.data(), .b = x_[at].data(), .d = gradients[0].data()});
  x_gradient_->run(stream, {.a = between_.data(), .b = weights[0].data(), .d = gradients_[at % 2].data()});
}

}  // namespace tandem::sharded_layers
