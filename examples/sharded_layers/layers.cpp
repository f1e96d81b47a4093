// SPDX-License-Identifier: Apache-2.0
#include "sharded_layers/layers.hpp"

#include <algorithm>
#include <cstddef>
#include <random>

#include "tandem/base/error.hpp"
#include "tandem/base/scalar.hpp"
#include "tandem/device/trace_range.hpp"

namespace tandem::sharded_layers {
namespace {

constexpr std::int64_t most_different = std::int64_t{1} << 22;

template <typename T> void fill_as(Device& device, const TensorView& view, const std::vector<float>& values) {
  std::vector<T> stored;
  for (const float value : values) stored.push_back(T(value));
  const auto count = static_cast<std::int64_t>(stored.size());
  auto* const to = view.data_as<T>();
  for (std::int64_t at = 0; at < view.numel(); at += count) {
    device.upload(to + at, stored.data(), static_cast<std::size_t>(std::min(count, view.numel() - at)) * sizeof(T));
  }
}

}  // namespace

ParameterGroup layer_parameters(const Sizes& sizes) {
  return {"layer", {{"up", {sizes.mlp, sizes.hidden}}, {"down", {sizes.hidden, sizes.mlp}}}};
}

void fill_randomly(Device& device, const TensorView& view, unsigned seed, float deviation) {
  std::minstd_rand random(seed + 1);
  std::normal_distribution<float> value(0, deviation);
  std::vector<float> values(static_cast<std::size_t>(std::min(view.numel(), most_different)));
  for (float& each : values) each = value(random);
  switch (view.dtype()) {
    case DType::f32: return fill_as<float>(device, view, values);
    case DType::f16: return fill_as<Half>(device, view, values);
    case DType::bf16: return fill_as<BFloat16>(device, view, values);
    default: throw InvalidArgument("layers of f32, f16 or bf16 only");
  }
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
  fill_randomly(*device, x_.front().view({m, h}, dtype), seed, 1);
  fill_randomly(*device, loss_gradient_.view({m, h}, dtype), seed + 1, 1);
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
