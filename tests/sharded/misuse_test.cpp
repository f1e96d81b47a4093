// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <utility>

#include "tandem/base/error.hpp"
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

class ShardedMisuseTest : public testing::OnEachDevice {};

TEST_P(ShardedMisuseTest, WhatNoPlanCanBeMadeOf) {
  on(2, [](World& world) {
    const Team& team = world.team();
    const auto make = [&](const ShardedSpec& spec, const ShardedOptions& options = {}) {
      const ShardedParameters parameters(team, spec, options);
    };
    expect_error<InvalidArgument>([&] { make({}); }, {"ShardedParameters on rank", "no group", "1 is needed"});
    expect_error<Unsupported>([&] { make({.groups = odd_groups(), .dtype = f64}); }, {"f64", "f32, bf16 and f16"});
    expect_error<InvalidArgument>([&] { make({.groups = odd_groups(), .gradient_dtype = f16}); },
                                  {"gradients in f16", "bf16 and f32"});
    expect_error<InvalidArgument>([&] { make({.groups = odd_groups(), .dtype = f32, .shard_dtype = bf16}); },
                                  {"shards in bf16", "dtype f32", "f32 and f32"});
    expect_error<InvalidArgument>([&] { make({.groups = odd_groups(), .order = {0, 6}}); },
                                  {"the order has group 6", "0 to 5"});
    expect_error<InvalidArgument>([&] { make({.groups = odd_groups()}, {.buffers = 0}); }, {"buffers is 0", "1 to 64"});
    expect_error<InvalidArgument>([&] { make({.groups = odd_groups()}, {.sms = 0}); },
                                  {"ShardedParameters on rank", "sms is 0", "1 at least"});
    expect_error<InvalidArgument>([&] { make({.groups = {{"g", {{"w", {-4}}}}}}); },
                                  {"ShardedParameters on rank", "-4"});
  });
}

TEST_P(ShardedMisuseTest, RanksThatDifferAreNamed) {
  on(3, [](World& world) {
    auto groups = odd_groups();
    if (world.rank() == 1) groups[2].parameters[0].sizes = {7, 14};
    expect_error<InvalidArgument>([&] { const ShardedParameters parameters(world.team(), {.groups = groups}); },
                                  {"ShardedParameters", "rank 1", "group 2 'second': weight[7, 13]", "weight[7, 14]"});
  });
}

TEST_P(ShardedMisuseTest, AnEmptyTeam) {
  on(1, [](World&) {
    expect_error<InvalidArgument>([] { const ShardedParameters parameters(Team(), {.groups = odd_groups()}); }, {});
  });
}

// What is refused leaves the step as it was: it goes on, with right results.
TEST_P(ShardedMisuseTest, CallsOutOfTurn) {
  on(2, [](World& world) {
    testing::Training training(world.team(), {.groups = odd_groups()}, {}, 1);
    ShardedParameters& parameters = training.parameters();
    const StreamRef stream = training.stream();
    training.update(true);
    const auto refused = [](const auto& call, std::initializer_list<std::string> parts) {
      expect_error<InvalidArgument>(call, parts);
    };
    const auto unshard = [&](int group) { static_cast<void>(parameters.unshard(group, stream)); };
    const auto gradients = [&](int group) { static_cast<void>(parameters.gradients(group, stream)); };
    refused([&] { unshard(1); }, {"group 1 'first'", "group 0 'embedding' next", "use 1 of 12"});
    refused([&] { unshard(6); }, {"group 6", "0 to 5"});
    refused([&] { unshard(-1); }, {"group -1", "0 to 5"});
    refused([&] { parameters.reshard(0, stream); }, {"group 0 'embedding'", "no group is in use"});
    refused([&] { parameters.reduce_gradients(0, stream); }, {"group 0", "gradients() gives memory"});
    refused([&] { static_cast<void>(parameters.shard(7)); }, {"group 7"});
    refused([&] { static_cast<void>(parameters.gradient(7)); }, {"group 7"});
    refused([&] { static_cast<void>(parameters.pieces(7)); }, {"group 7"});
    training.use(0, true);
    unshard(1);
    refused([&] { unshard(2); }, {"group 2", "while group 1 'first' is in use", "reshard()"});
    refused([&] { parameters.reshard(2, stream); }, {"group 2", "group 1 'first' is in use"});
    parameters.reshard(1, stream);
    gradients(0);
    refused([&] { gradients(4); }, {"group 4", "group 0 'embedding' are being written", "reduce_gradients()"});
    refused([&] { parameters.reduce_gradients(4, stream); }, {"group 4", "group 0 'embedding' are being written"});
    refused([&] { parameters.reduce_gradients(0, stream); }, {"group 0 'embedding'", "beta of 0 would discard"});
    const GuardedTensor table(world.team(), {37, 11}, f32);
    refused([&] { parameters.load(0, 0, table.view(), stream); }, {"group 0", "in the middle of a step", "finish()"});
    training.finish();
    refused([&] { parameters.load(0, 1, table.view(), stream); }, {"parameter 1", "allowed: 0 to 0"});
    refused([&] { parameters.load(1, 0, table.view(), stream); }, {"whole", "[37, 11]", "[13, 7]"});
    const GuardedTensor halves(world.team(), {37, 11}, f16);
    refused([&] { parameters.load(0, 0, halves.view(), stream); }, {"whole", "f16", "bf16"});
    training.use(0, true);
    training.finish();
    training.check();
  });
}

TEST_P(ShardedMisuseTest, WhatWasMovedFrom) {
  on(1, [](World& world) {
    ShardedParameters parameters(world.team(), {.groups = odd_groups()});
    const ShardedParameters moved(std::move(parameters));
    const Stream stream(world.device());
    EXPECT_EQ(moved.groups(), 6);
    expect_error<InvalidArgument>([&] { parameters.finish(stream); }, {"moved from"});
  });
}

TEST_P(ShardedMisuseTest, RanksThatTakeDifferentStepsAreToldIfRunsAreCompared) {
  Env env;
  env.check = RunCheck::runs;
  on(2,
     [](World& world) {
       ShardedParameters parameters(world.team(), {.groups = odd_groups()});
       const Stream stream(world.device());
       static_cast<void>(parameters.unshard(0, stream));
       expect_error<InvalidArgument>(
           [&] {
             if (world.rank() == 0) return parameters.reshard(0, stream);
             parameters.finish(stream);
           },
           {"ShardedParameters", "group 0 resharded", "a step finished"});
       parameters.reshard(0, stream);  // nothing was queued, and all goes on
       static_cast<void>(parameters.unshard(1, stream));
       parameters.finish(stream);
       world.team().synchronize(stream);
     },
     {.env = env});
}

TANDEM_ON_EACH_DEVICE(ShardedMisuseTest);

}  // namespace
}  // namespace tandem
