// SPDX-License-Identifier: Apache-2.0
#include "tandem/sharded/sharded_parameters.hpp"

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "tandem/base/env.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/device/device.hpp"

#include "linear/tensors.hpp"
#include "sharded/training.hpp"
#include "support/devices.hpp"
#include "support/draws.hpp"
#include "support/errors.hpp"

namespace tandem {
namespace {

using testing::GuardedTensor;
using testing::odd_groups;
using testing::Training;

class ShardedParametersTest : public testing::OnEachDevice {};

/// A forward and a backward pass.
void pass(Training& training, const GradientScales& scales = {}) {
  const int groups = training.parameters().groups();
  for (int group = 0; group < groups; ++group) training.use(group, false);
  for (int group = groups - 1; group >= 0; --group) training.use(group, true, scales);
}

void train(const Team& team, const ShardedSpec& spec, const ShardedOptions& options, std::uint64_t sequence) {
  Training training(team, spec, options, sequence);
  for (int step = 0; step < 3; ++step) {
    training.update(step % 2 == 0);
    pass(training);
    training.finish();
  }
  training.check();
}

TEST_P(ShardedParametersTest, StepsAreRightAtEveryTeamSize) {
  for (const int ranks : testing::team_sizes()) {
    on(ranks, [](World& world) {
      std::uint64_t sequence = 100;
      for (const DType dtype : {f32, bf16, f16}) {
        for (const DType gradients : {dtype, f32}) {
          train(world.team(), {.groups = odd_groups(), .dtype = dtype, .gradient_dtype = gradients}, {}, ++sequence);
        }
      }
    });
  }
}

TEST_P(ShardedParametersTest, ShardsMayBeWider) {
  on(3, [](World& world) {
    std::uint64_t sequence = 150;
    for (const DType dtype : {bf16, f16, f32}) {
      for (const int buffers : {1, 2, 6}) {
        train(world.team(), {.groups = odd_groups(), .dtype = dtype, .shard_dtype = f32}, {.buffers = buffers},
              ++sequence);
      }
    }
    // What is gathered is rounded to the nearest; the shard stays as it is.
    const Stream stream(world.device());
    ShardedParameters parameters(world.team(), {.groups = odd_groups(), .dtype = bf16, .shard_dtype = f32});
    GuardedTensor table(world.team(), {37, 11}, f32);
    const float exact = 1 + 0x1.8p-8F;
    table.set(std::vector<double>(static_cast<std::size_t>(37 * 11), static_cast<double>(exact)));
    parameters.load(0, 0, table.view(), stream);
    const TensorView gathered = parameters.unshard(0, stream)[0];
    GuardedTensor kept(world.team(), {37, 11}, bf16);
    world.device().copy(stream, {.dst = kept.view().data(), .src = gathered.data(), .bytes = gathered.bytes()});
    parameters.reshard(0, stream);
    parameters.finish(stream);
    world.team().synchronize(stream);
    GuardedTensor nearest(world.team(), {37, 11}, bf16);
    nearest.set(std::vector<double>(static_cast<std::size_t>(37 * 11), 1 + 0x1p-7));
    EXPECT_EQ(kept.get(), nearest.get());
    const std::vector<float> shard = world.device().download<float>(parameters.shard(0));
    for (const ParameterPiece& piece : parameters.pieces(0)) {
      for (std::int64_t i = 0; i < piece.elements.count; ++i) {
        EXPECT_EQ(shard[static_cast<std::size_t>(piece.begin + i)], exact);
      }
    }
  });
}

TEST_P(ShardedParametersTest, AnyNumberOfBuffersWillDo) {
  on(3, [](World& world) {
    for (const int buffers : {1, 2, 3, 4, 9}) {
      train(world.team(), {.groups = odd_groups()}, {.buffers = buffers, .sms = 2},
            200 + static_cast<std::uint64_t>(buffers));
    }
  });
}

TEST_P(ShardedParametersTest, SubTeamsInOddOrders) {
  on(5, [](World& world) {
    for (const std::vector<int>& ranks : {std::vector<int>{3, 0, 4}, {1, 2}, {4, 2, 0, 1}, {2}}) {
      if (const Team team = world.team(ranks)) train(team, {.groups = odd_groups()}, {}, 300 + ranks.size());
    }
    world.team().barrier();
  });
}

TEST_P(ShardedParametersTest, GradientsOfSeveralBatchesAddUp) {
  on(4, [](World& world) {
    for (const DType shards : {bf16, f32}) {
      Training training(world.team(), {.groups = odd_groups(), .shard_dtype = shards}, {.buffers = 2}, 400);
      const float mean = 1.0F / static_cast<float>(world.team().size());
      training.update(true);
      for (int step = 0; step < 2; ++step) {
        pass(training, {.alpha = mean});
        pass(training, {.alpha = mean, .beta = 1});  // with no finish() between them: the shards stay
        pass(training, {.alpha = -2, .beta = 0.5F});
        training.finish();
        training.update(false);
      }
      training.check();
    }
  });
}

// A group in the order several times, as tied parameters are; one that is never used; passes that end in the middle.
TEST_P(ShardedParametersTest, OrdersOfItsOwn) {
  on(3, [](World& world) {
    const std::vector<int> order{5, 0, 5, 1, 1, 0, 3, 5, 0, 4};
    for (const int buffers : {1, 2, 3}) {
      const DType shards = buffers == 2 ? f32 : bf16;
      Training training(world.team(), {.groups = odd_groups(), .shard_dtype = shards, .order = order},
                        {.buffers = buffers}, 500 + static_cast<std::uint64_t>(buffers));
      testing::Draws draws(600);
      for (int step = 0; step < 5; ++step) {
        training.update(step % 2 == 1);
        const std::uint64_t uses = 1 + draws.below(3 * order.size());
        std::set<int> written;  // gradients of several uses add up
        for (std::size_t i = 0; i < uses; ++i) {
          const int group = order[i % order.size()];
          const bool writes = draws.below(2) == 0;
          const bool again = writes && !written.insert(group).second;
          training.use(group, writes, {.beta = again ? 1.0F : 0.0F});
        }
        training.finish();
      }
      training.check();
    }
  });
}

TEST_P(ShardedParametersTest, CallsOnChangingStreamsFollowEachOther) {
  on(3, [](World& world) {
    for (const int buffers : {1, 2}) {
      Training training(world.team(), {.groups = odd_groups()}, {.buffers = buffers},
                        650 + static_cast<std::uint64_t>(buffers));
      training.alternate_streams();
      for (int step = 0; step < 4; ++step) {
        training.update(step % 2 == 0);
        pass(training);
        training.finish();
      }
      training.check();
    }
  });
}

TEST_P(ShardedParametersTest, PlansTakeTurns) {
  on(2, [](World& world) {
    Training one(world.team(), {.groups = odd_groups()}, {}, 700);
    Training other(world.team(), {.groups = odd_groups(), .dtype = f32}, {}, 701);
    AllReduce reduce(world.team(), {.count = 100});
    GuardedTensor x(world.team(), {100}, f32);
    x.set(std::vector<double>(100, 1.0));
    for (Training* each : {&one, &other}) each->update(true);
    const int groups = one.parameters().groups();
    for (int group = 0; group < groups; ++group) {
      one.use(group, false);
      other.use(group, false);
      reduce(x.view(), x.view(), one.stream());
    }
    for (int group = groups - 1; group >= 0; --group) {
      one.use(group, true);
      reduce(x.view(), x.view(), one.stream());
      other.use(group, true);
    }
    for (Training* each : {&one, &other}) each->finish();
    for (Training* each : {&one, &other}) each->check();
    EXPECT_EQ(world.device().download<float>(x.view()), std::vector<float>(100, std::ldexp(1.0F, 2 * groups)));
  });
}

// As on GPUs: two buffers, gathers and sums by pushes, a piece of a sum beside the next.
TEST(ShardedParametersOverALink, StepsAreRight) {
  Env env;
  env.link = LinkOptions{std::chrono::microseconds(100), 1e8};
  testing::run_ranks(3,
                     [](World& world) {
                       train(world.team(), {.groups = odd_groups(), .dtype = f32}, {}, 800);
                       train(world.team(), {.groups = odd_groups()}, {.buffers = 3}, 801);
                       const ShardedParameters parameters(world.team(), {.groups = odd_groups()});
                       testing::expect_says(parameters.describe(), {"2 buffers", "algorithm push"});
                     },
                     {.env = env});
}

TEST_P(ShardedParametersTest, StepsThatFollowFinishHaveTheSameAddresses) {
  on(2, [](World& world) {
    ShardedParameters parameters(world.team(), {.groups = odd_groups()}, {.buffers = 2});
    const Stream stream(world.device());
    std::vector<std::vector<const void*>> steps;
    for (int step = 0; step < 3; ++step) {
      auto& addresses = steps.emplace_back();
      for (const int group : {0, 1, 2}) {
        addresses.push_back(parameters.unshard(group, stream)[0].data());
        addresses.push_back(parameters.gradients(group, stream)[0].data());
        parameters.reshard(group, stream);
        parameters.reduce_gradients(group, stream);
      }
      parameters.finish(stream);
    }
    world.team().synchronize(stream);
    EXPECT_EQ(steps[1], steps[0]);
    EXPECT_EQ(steps[2], steps[0]);
  });
}

TEST_P(ShardedParametersTest, MayBeDestroyedAfterItsWorkIsQueued) {
  on(3, [](World& world) {
    const Team& team = world.team();
    const Stream stream(team.device());
    GuardedTensor kept(team, {37, 11}, f32);
    GuardedTensor whole(team, {37, 11}, f32);
    whole.set(std::vector<double>(static_cast<std::size_t>(37 * 11), 3.0));
    {
      ShardedParameters parameters(team, {.groups = odd_groups(), .dtype = f32});
      parameters.load(0, 0, whole.view(), stream);
      testing::maybe_delay(stream, testing::random_bits(testing::seed(), static_cast<std::uint64_t>(team.rank())));
      const TensorView table = parameters.unshard(0, stream)[0];
      team.device().copy(stream, {.dst = kept.view().data(), .src = table.data(), .bytes = table.bytes()});
      parameters.reshard(0, stream);
      parameters.finish(stream);
    }
    team.synchronize(stream);
    EXPECT_EQ(kept.get(), whole.get());
  });
}

TEST_P(ShardedParametersTest, DescribesItself) {
  on(2, [](World& world) {
    const ShardedParameters parameters(world.team(), {.groups = odd_groups()}, {.buffers = 3});
    const std::string& text = parameters.describe();
    testing::expect_says(text, {"ShardedParameters", "13 parameters in 6 groups", "3 buffers", "bf16",
                                "3 gathered groups at once", "AllGather", "summed into f32", "ReduceScatter"});
    EXPECT_EQ(parameters.groups(), 6);
    EXPECT_EQ(parameters.shard(4).dtype(), bf16);
    EXPECT_EQ(parameters.gradient(4).dtype(), f32);
    EXPECT_EQ(parameters.gradient(4).sizes(), parameters.shard(4).sizes());
    std::int64_t elements = 0;
    for (int group = 0; group < parameters.groups(); ++group) {
      const auto* const shards = parameters.all_shards().data_as<std::byte>();
      EXPECT_EQ(parameters.shard(group).data(), shards + static_cast<std::size_t>(elements) * size_of(bf16));
      const auto* const gradients = parameters.all_gradients().data_as<std::byte>();
      EXPECT_EQ(parameters.gradient(group).data(), gradients + static_cast<std::size_t>(elements) * sizeof(float));
      elements += parameters.shard(group).numel();
    }
    const std::vector<float> zeros(static_cast<std::size_t>(elements));
    EXPECT_EQ(world.device().download<float>(parameters.all_gradients()), zeros);
    const std::vector<BFloat16> narrow = world.device().download<BFloat16>(parameters.all_shards());
    EXPECT_EQ(std::vector<float>(narrow.begin(), narrow.end()), zeros);
  });
}

TANDEM_ON_EACH_DEVICE(ShardedParametersTest);

}  // namespace
}  // namespace tandem
