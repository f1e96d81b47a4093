// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "tandem/device/device.hpp"
#include "tandem/sharded/sharded_parameters.hpp"

#include "sharded_layers/layers.hpp"
#include "sharded_layers/reference.hpp"
#include "sharded_layers/step.hpp"
#include "support/devices.hpp"

namespace tandem::sharded_layers {
namespace {

class ShardedLayersTest : public testing::OnEachDevice {};

TEST_P(ShardedLayersTest, GradientsAreThoseOfWholeLayers) {
  on(3, [](World& world) {
    const Stream stream(world.device());
    for (const DType dtype : {f32, bf16, f16}) {
      for (const DType gradients : {dtype, f32}) {
        const Sizes sizes{.layers = 3,
                          .tokens = 9,
                          .hidden = 20,
                          .mlp = 33,
                          .dtype = dtype,
                          .gradient_dtype = gradients,
                          .shard_dtype = gradients};
        Layers layers(world.shared_device(), sizes, 7 + static_cast<unsigned>(world.rank()));
        const WholeLayers whole(world.team(), sizes);
        ShardedParameters parameters = sharded(whole, {.buffers = 2}, stream);
        step(parameters, &layers, stream);
        EXPECT_EQ(whole.count_wrong(parameters, layers, stream), 0);

        // What is wrong is found: one element on one rank, and a NaN on another.
        const TensorView gradient = parameters.gradient(1);
        std::vector<float> values = world.device().download<float>(gradient);
        if (world.rank() == 1) values[3] += 1;
        if (world.rank() == 2) values[5] = std::numeric_limits<float>::quiet_NaN();
        world.device().upload(gradient, values);
        EXPECT_EQ(whole.count_wrong(parameters, layers, stream), world.rank() == 0 ? 0 : 1);
      }
    }
  });
}

TANDEM_ON_EACH_DEVICE(ShardedLayersTest);

}  // namespace
}  // namespace tandem::sharded_layers
