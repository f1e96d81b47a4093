// SPDX-License-Identifier: Apache-2.0
#include "sharded_layers/step.hpp"

namespace tandem::sharded_layers {

ShardedParameters sharded(const WholeLayers& whole, const ShardedOptions& options, StreamRef stream) {
  const Sizes& sizes = whole.sizes();
  ShardedSpec spec{.dtype = sizes.dtype, .shard_dtype = sizes.shard_dtype, .gradient_dtype = sizes.gradient_dtype};
  for (int layer = 0; layer < sizes.layers; ++layer) spec.groups.push_back(layer_parameters(sizes));
  ShardedParameters parameters(whole.team(), spec, options);
  for (int layer = 0; layer < sizes.layers; ++layer) {
    int parameter = 0;
    for (const TensorView& weight : whole.weights(layer)) parameters.load(layer, parameter++, weight, stream);
  }
  return parameters;
}

void step(ShardedParameters& parameters, Layers* layers, StreamRef stream) {
  const int last = parameters.groups() - 1;
  for (int layer = 0; layer <= last; ++layer) {
    const auto weights = parameters.unshard(layer, stream);
    if (layers != nullptr) layers->forward(layer, weights, stream);
    parameters.reshard(layer, stream);
  }
  for (int layer = last; layer >= 0; --layer) {
    const auto weights = parameters.unshard(layer, stream);
    const auto gradients = parameters.gradients(layer, stream);
    if (layers != nullptr) layers->backward(layer, weights, gradients, stream);
    parameters.reshard(layer, stream);
    parameters.reduce_gradients(layer, stream, {.alpha = 1 / static_cast<float>(parameters.team().size())});
  }
  parameters.finish(stream);
}

}  // namespace tandem::sharded_layers
