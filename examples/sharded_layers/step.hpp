// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/device/stream.hpp"
#include "tandem/sharded/sharded_parameters.hpp"

#include "sharded_layers/layers.hpp"
#include "sharded_layers/reference.hpp"

namespace tandem::sharded_layers {

/// Collective: the same weights, sharded.
[[nodiscard]] ShardedParameters sharded(const WholeLayers& whole, const ShardedOptions& options, StreamRef stream);

/// Queues a step, all but its optimizer; without `layers`, only its communication.
void step(ShardedParameters& parameters, Layers* layers, StreamRef stream);

}  // namespace tandem::sharded_layers
