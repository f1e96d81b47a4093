// SPDX-License-Identifier: Apache-2.0
// Steps of sharded parameters in CUDA graphs; replay_test.cpp replays them thousands of times.
#include "tandem/device/graph.hpp"

#include <gtest/gtest.h>
#include <optional>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/device/device.hpp"
#include "tandem/sharded/sharded_parameters.hpp"

#include "sharded/training.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"

namespace tandem {
namespace {

using testing::expect_error;
using testing::GuardedTensor;
using testing::odd_groups;

class ShardedGraph : public testing::OnEachDevice {};

// As with an exception between its calls: the next steps, captured or not, know nothing of it.
TEST_P(ShardedGraph, ADroppedCaptureIsForgotten) {
  on(2, [](World& world) {
    testing::Training training(world.team(), {.groups = odd_groups()}, {}, 3);
    ShardedParameters& parameters = training.parameters();
    const StreamRef stream = training.stream();
    training.update(true);
    struct Dropped {};
    const auto dropped = [&] {
      EXPECT_THROW(Graph(world.device(), stream,
                         [&] {
                           static_cast<void>(parameters.unshard(0, stream));
                           static_cast<void>(parameters.gradients(0, stream));
                           parameters.reduce_gradients(0, stream);
                           parameters.reshard(0, stream);
                           throw Dropped();
                         }),
                   Dropped);
    };
    dropped();
    const Graph forward(world.device(), stream, [&] {
      static_cast<void>(parameters.unshard(0, stream));
      parameters.reshard(0, stream);
      parameters.finish(stream);
    });
    forward.launch(stream);
    dropped();
    training.use(0, false);
    training.use(1, true);
    training.finish();
    training.check();
  });
}

TEST_P(ShardedGraph, AStepLiesInOneGraph) {
  on(2, [](World& world) {
    testing::Training training(world.team(), {.groups = odd_groups()}, {}, 2);
    training.update(true);
    training.use(0, false);
    const auto record = [&] {
      const Graph graph(world.device(), training.stream(),
                        [&] { static_cast<void>(training.parameters().unshard(1, training.stream())); });
    };
    expect_error<InvalidArgument>(record, {"began outside of this capture", "finish()"});
    training.use(1, true);  // the step goes on
    training.finish();
    training.check();
  });
}

// A graph keeps what it needs of a plan that is gone.
TEST_P(ShardedGraph, AGraphOutlivesThePlan) {
  on(2, [](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    GuardedTensor kept(team, {37, 11}, f32);
    GuardedTensor whole(team, {37, 11}, f32);
    whole.set(std::vector<double>(static_cast<std::size_t>(37 * 11), 3.0));
    std::optional<Graph> graph;
    {
      ShardedParameters parameters(team, {.groups = odd_groups(), .dtype = f32});
      parameters.load(0, 0, whole.view(), stream);
      graph.emplace(team.device(), stream, [&] {
        const TensorView table = parameters.unshard(0, stream)[0];
        team.device().copy(stream, {.dst = kept.view().data(), .src = table.data(), .bytes = table.bytes()});
        parameters.reshard(0, stream);
        parameters.finish(stream);
      });
    }
    for (int replay = 0; replay < 3; ++replay) {
      const AllReduce other(team, {.count = 1000});  // a constructor that releases what nobody needs
      kept.poison();
      graph->launch(stream);
      team.synchronize(stream);
      EXPECT_EQ(kept.get(), whole.get());
    }
    graph.reset();
  });
}

INSTANTIATE_TEST_SUITE_P(Device, ShardedGraph, ::testing::Values(DeviceType::cuda), testing::device_name);

}  // namespace
}  // namespace tandem
