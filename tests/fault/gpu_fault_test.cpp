// SPDX-License-Identifier: Apache-2.0
// A GPU whose kernel accesses memory that does not exist refuses every later call: what the peers of its rank are told.
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <thread>

#include "tandem/base/error.hpp"
#include "tandem/collective/all_gather.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/linear/linear_weight_gradient.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "support/devices.hpp"
#include "support/errors.hpp"

namespace tandem::testing {
namespace {

/// Returns when the device has failed.
void fault(Device& device, StreamRef stream) {
  auto* const nowhere = reinterpret_cast<float*>(std::uintptr_t{1} << 20);  // NOLINT(performance-no-int-to-ptr)
  device.map(stream, {.kind = MapKind::cast, .out = nowhere, .x = nowhere, .count = 1});
  expect_error<DeviceError>(
      [&] {
        while (!device.stream_query(stream)) std::this_thread::yield();
      },
      {"illegal"});
}

class GpuFault : public OnEachDevice {
 protected:
  /// What a rank has when its GPU fails: a gather whose first step has been taken, and other plans.
  struct Rank {
    explicit Rank(const Team& its_team)
        : team(its_team),
          tensor(SymmetricTensor::empty(team, {1000}, f32)),
          sum(team, {.count = 1000, .dtype = f32}),
          gather(team, {.count = 1000, .dtype = f32}),
          gradient(team, {.m = 12, .n = 8, .k = 8}, GatheredOperand::x),
          stream(team.device()) {
      tensor.rendezvous();
      gather.start(tensor, stream);
    }

    Team team;
    SymmetricTensor tensor;
    AllReduce sum;
    AllGather gather;
    LinearWeightGradient gradient;
    Stream stream;
  };

  /// Rank 1's GPU fails, and then it calls `call`, which must throw and tell its peers, who are in an all_reduce.
  template <typename Call> static void expect_told(const Call& call) {
    RankOptions options;
    options.env.timeout = std::chrono::seconds(20);
    on(
        3,
        [&](World& world) {
          Rank rank(world.team({2, 0, 1}));
          rank.team.synchronize(rank.stream);
          const auto begin = std::chrono::steady_clock::now();
          if (world.rank() == 1) {
            fault(rank.team.device(), rank.stream);
            expect_error<DeviceError>([&] { call(rank); }, {"illegal", "rank 2 of 3"});
          } else {
            expect_error<Aborted>(
                [&] {
                  rank.sum(rank.tensor, rank.stream);
                  rank.team.synchronize(rank.stream);
                },
                {"rank 1 ", "illegal"});
          }
          EXPECT_LT(std::chrono::steady_clock::now() - begin, rank.team.timeout() / 2);
          EXPECT_TRUE(rank.team.failed());
        },
        options);
  }
};

TEST_P(GpuFault, IsToldByTheNextRun) {
  expect_told([](Rank& rank) { rank.sum(rank.tensor, rank.stream); });
}

TEST_P(GpuFault, IsToldByTheNextSynchronization) {
  expect_told([](Rank& rank) { rank.team.synchronize(rank.stream); });
}

TEST_P(GpuFault, IsToldByTheNextCallOfAFunction) {
  expect_told([](Rank& rank) { all_reduce(rank.team, rank.tensor, rank.stream); });  // whose plan would have to be made
}

TEST_P(GpuFault, IsToldByTheNextStepOfARun) {
  expect_told([](Rank& rank) { rank.gather.wait_shard(0, rank.stream); });
  expect_told([](Rank& rank) { rank.gather.finish(rank.stream); });
}

TEST_P(GpuFault, IsToldByTheStartOfAWeightGradient) {
  expect_told(
      [](Rank& rank) { rank.gradient.start(rank.tensor.local().narrow(0, 0, 32).reshaped({4, 8}), 12, rank.stream); });
}

INSTANTIATE_TEST_SUITE_P(Device, GpuFault, ::testing::Values(DeviceType::cuda), device_name);

}  // namespace
}  // namespace tandem::testing
