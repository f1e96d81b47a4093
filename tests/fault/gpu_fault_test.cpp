// SPDX-License-Identifier: Apache-2.0
// A GPU whose kernel accesses memory that does not exist refuses every later call: what the peers of its rank are told.
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <thread>

#include "tandem/base/error.hpp"
#include "tandem/collective/all_reduce.hpp"
#include "tandem/device/device.hpp"
#include "tandem/device/stream.hpp"
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
  /// Rank 1's GPU fails, and then it calls `call`, which must throw and tell its peers, who are in an all_reduce.
  template <typename Call> static void expect_told(const Call& call) {
    RankOptions options;
    options.env.timeout = std::chrono::seconds(20);
    on(
        3,
        [&](World& world) {
          const Team team = world.team({2, 0, 1});
          auto tensor = SymmetricTensor::empty(team, {1000}, f32);
          tensor.rendezvous();
          AllReduce plan(team, {.count = 1000, .dtype = f32});
          const Stream stream(team.device());
          team.barrier();
          const auto begin = std::chrono::steady_clock::now();
          if (world.rank() == 1) {
            fault(team.device(), stream);
            expect_error<DeviceError>([&] { call(team, plan, tensor, stream); }, {"illegal", "rank 2 of 3"});
          } else {
            expect_error<Aborted>(
                [&] {
                  plan(tensor, stream);
                  team.synchronize(stream);
                },
                {"rank 1 ", "illegal"});
          }
          EXPECT_LT(std::chrono::steady_clock::now() - begin, team.timeout() / 2);
          EXPECT_TRUE(team.failed());
        },
        options);
  }
};

TEST_P(GpuFault, IsToldByTheNextRun) {
  expect_told(
      [](const Team&, AllReduce& plan, const SymmetricTensor& tensor, StreamRef stream) { plan(tensor, stream); });
}

TEST_P(GpuFault, IsToldByTheNextSynchronization) {
  expect_told([](const Team& team, AllReduce&, const SymmetricTensor&, StreamRef stream) { team.synchronize(stream); });
}

TEST_P(GpuFault, IsToldByTheNextCallOfAFunction) {
  expect_told([](const Team& team, AllReduce&, const SymmetricTensor& tensor, StreamRef stream) {
    all_reduce(team, tensor, stream);  // whose plan would have to be made
  });
}

INSTANTIATE_TEST_SUITE_P(Device, GpuFault, ::testing::Values(DeviceType::cuda), device_name);

}  // namespace
}  // namespace tandem::testing
