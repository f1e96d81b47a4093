// SPDX-License-Identifier: Apache-2.0
#include "sharded_layers/reference.hpp"

#include <cmath>

#include "tandem/collective/all_reduce.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/reduce.hpp"

#include "common/random_values.hpp"

namespace tandem::sharded_layers {

WholeLayers::WholeLayers(const Team& team, const Sizes& sizes) : team_(team), sizes_(sizes) {
  const auto add = [&](const Parameter& parameter, DType dtype) {
    buffers_.emplace_back(team.shared_device(), static_cast<std::size_t>(parameter.sizes.numel()) * size_of(dtype));
    return buffers_.back().view(parameter.sizes, dtype);
  };
  const ParameterGroup group = layer_parameters(sizes);
  for (int layer = 0; layer < sizes.layers; ++layer) {
    auto& weights = weights_.emplace_back();
    for (const Parameter& parameter : group.parameters) {
      weights.push_back(add(parameter, sizes.dtype));
      const auto inputs = static_cast<float>(parameter.sizes[1]);
      const auto seed = static_cast<unsigned>(10 * layer) + static_cast<unsigned>(weights.size());
      examples::fill_randomly(team.device(), weights.back(), seed, 1 / std::sqrt(inputs));
    }
  }
  for (const Parameter& parameter : group.parameters) gradients_.push_back(add(parameter, sizes.gradient_dtype));
}

void WholeLayers::step(Layers& layers, StreamRef stream) const {
  for (int layer = 0; layer < sizes_.layers; ++layer) layers.forward(layer, weights(layer), stream);
  for (int layer = sizes_.layers - 1; layer >= 0; --layer) layers.backward(layer, weights(layer), gradients_, stream);
}

std::int64_t WholeLayers::count_wrong(const ShardedParameters& parameters, Layers& layers, StreamRef stream) const {
  const std::int64_t count = sizes_.mlp * sizes_.hidden;  // of either weight
  const Buffer sum(team_.shared_device(), static_cast<std::size_t>(count) * sizeof(float));
  const TensorView sums = sum.view({count}, f32);
  AllReduce all_reduce(team_, {.count = count, .dtype = f32});
  const float mean = 1 / static_cast<float>(team_.size());
  std::int64_t wrong = 0;
  for (int layer = 0; layer < sizes_.layers; ++layer) layers.forward(layer, weights(layer), stream);
  for (int layer = sizes_.layers - 1; layer >= 0; --layer) {
    layers.backward(layer, weights(layer), gradients_, stream);
    team_.synchronize(stream);
    const std::vector<float> shard = team_.device().download<float>(parameters.gradient(layer));
    for (int parameter = 0; parameter < 2; ++parameter) {
      team_.device().map(stream, {.kind = MapKind::cast,
                                  .out = sum.data(),
                                  .x = gradients_[static_cast<std::size_t>(parameter)].data(),
                                  .count = count,
                                  .dtype = sizes_.gradient_dtype,
                                  .out_dtype = f32});
      all_reduce(sums, sums, stream);
      team_.synchronize(stream);
      const std::vector<float> whole = team_.device().download<float>(sums);
      for (const ParameterPiece& piece : parameters.pieces(layer)) {
        if (piece.parameter != parameter) continue;
        for (std::int64_t i = 0; i < piece.elements.count; ++i) {
          const float found = shard[static_cast<std::size_t>(piece.begin + i)];
          const float wanted = whole[static_cast<std::size_t>(piece.elements.begin + i)] * mean;
          if (!(found == wanted)) ++wrong;  // bit for bit; a NaN is never right
        }
      }
    }
  }
  return wrong;
}

}  // namespace tandem::sharded_layers
