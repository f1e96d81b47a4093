// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tandem/base/tensor_view.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/sharded/sharded_parameters.hpp"
#include "tandem/team/team.hpp"

#include "sharded_layers/layers.hpp"

namespace tandem::sharded_layers {

/// The same layers with every weight whole on every rank.
class WholeLayers {
 public:
  /// Collective.
  WholeLayers(const Team& team, const Sizes& sizes);

  [[nodiscard]] const Team& team() const noexcept { return team_; }
  [[nodiscard]] const Sizes& sizes() const noexcept { return sizes_; }
  [[nodiscard]] const std::vector<TensorView>& weights(int layer) const noexcept {
    return weights_[static_cast<std::size_t>(layer)];
  }
  /// One step, whose gradients of all layers go to one place: the computation alone.
  void step(Layers& layers, StreamRef stream) const;
  /// Collective. Elements of the shards' gradients that differ from this rank's part of the means that separate
  /// all_reduces in f32 compute, for the step that `layers` is given: none, since both sum in rank order.
  [[nodiscard]] std::int64_t count_wrong(const ShardedParameters& parameters, Layers& layers, StreamRef stream) const;

 private:
  Team team_;
  Sizes sizes_;
  std::vector<Buffer> buffers_;
  std::vector<std::vector<TensorView>> weights_;  ///< by layer
  std::vector<TensorView> gradients_;
};

}  // namespace tandem::sharded_layers
