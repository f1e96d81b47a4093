// SPDX-License-Identifier: Apache-2.0
// Signals that kernels of a program put and wait for, as the host's do, in the same counts.
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tandem/base/error.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "memory/cuda/ring_kernel.hpp"
#include "support/cuda/captured_graph.hpp"
#include "support/devices.hpp"
#include "support/draws.hpp"
#include "support/errors.hpp"
#include "support/oracle.hpp"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;

constexpr int count = 3001;
constexpr std::uint32_t granting = 0;
constexpr std::uint32_t sending = 1;

cudaStream_t native(StreamRef stream) { return CapturedGraph::native(stream); }

/// The ring of a team's ranks: values of this rank, its inbox, and the sums of what came.
class Ring {
 public:
  explicit Ring(const Team& team)
      : team_(team),
        inbox_(SymmetricTensor::empty(team, {count}, i64, {.channels = 2})),
        mine_(team.shared_device(), count * sizeof(std::int64_t)),
        sums_(team.shared_device(), count * sizeof(std::int64_t)) {
    inbox_.rendezvous();
    EXPECT_EQ(cudaSetDevice(team.device().id().index), cudaSuccess);
    EXPECT_EQ(load_ring_kernels(), cudaSuccess);
    const std::vector<std::int64_t> values = values_of(team.rank());
    const std::vector<std::int64_t> zeros(count, 0);
    team.device().upload(mine_.data(), values.data(), mine_.bytes());
    team.device().upload(sums_.data(), zeros.data(), sums_.bytes());
  }

  [[nodiscard]] int next() const { return (team_.rank() + 1) % team_.size(); }
  [[nodiscard]] int previous() const { return (team_.rank() + team_.size() - 1) % team_.size(); }

  /// The host grants this rank's inbox for the first step.
  void grant(StreamRef stream) const { inbox_.signal_pad().put_signal(stream, previous(), granting); }

  void step(StreamRef stream) const {
    const SignalPad& pad = inbox_.signal_pad();
    const RingStep step{.granted = pad.signal_from(next(), granting),
                        .sent = pad.signal_to(next(), sending),
                        .came = pad.signal_from(previous(), sending),
                        .read = pad.signal_to(previous(), granting),
                        .control = team_.control(),
                        .mine = static_cast<std::int64_t*>(mine_.data()),
                        .inbox = inbox_.local().data_as<std::int64_t>(),
                        .next = inbox_.remote(next()).data_as<std::int64_t>(),
                        .sums = static_cast<std::int64_t*>(sums_.data()),
                        .growth = growth_of(team_.rank()),
                        .count = count};
    ASSERT_EQ(launch_ring_step(step, native(stream)), cudaSuccess);
  }

  /// What the previous rank sent in the first `steps` steps, added up.
  void expect_sums(std::int64_t steps) const {
    std::vector<std::int64_t> sums(count);
    team_.device().download(sums.data(), sums_.data(), sums_.bytes());
    std::vector<std::int64_t> expected = values_of(previous());
    for (std::int64_t& value : expected) value = steps * value + growth_of(previous()) * steps * (steps + 1) / 2;
    EXPECT_EQ(sums, expected);
  }

  /// The host takes the grant that the last step has left.
  void take_grant(StreamRef stream) const { inbox_.signal_pad().wait_signal(stream, next(), granting); }

 private:
  [[nodiscard]] static std::vector<std::int64_t> values_of(int rank) {
    std::vector<std::int64_t> values(count);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<std::int64_t>(random_bits(key(seed(), {static_cast<std::uint64_t>(rank)}), i) % 1000);
    }
    return values;
  }
  [[nodiscard]] static std::int64_t growth_of(int rank) { return 1 + rank; }

  Team team_;
  SymmetricTensor inbox_;
  Buffer mine_;
  Buffer sums_;
};

void delay_somebody(const Team& team, StreamRef stream, Draws& draws) {
  const auto who = static_cast<int>(draws.below(static_cast<std::uint64_t>(team.size())));
  const std::chrono::microseconds pause(draws.below(2000));
  if (who == team.rank()) team.device().launch(stream, [pause] { std::this_thread::sleep_for(pause); });
}

class SignalDevice : public OnEachDevice {
 protected:
  /// Runs `body` on teams of two ranks and more.
  template <typename Body> static void on_rings(const Body& body) {
    for (const int ranks : team_sizes()) {
      if (ranks == 1) continue;
      on(ranks, [&](World& world) { body(world.team()); });
    }
  }
};

TEST_P(SignalDevice, KernelsAndTheHostSignalEachOther) {
  on_rings([](const Team& team) {
    const Ring ring(team);
    const Stream stream(team.device());
    Draws draws(41);
    constexpr int steps = 60;
    ring.grant(stream);
    for (int i = 0; i < steps; ++i) {
      if (i % 4 == 0) delay_somebody(team, stream, draws);
      if (i == steps / 2) {  // the host takes what a kernel has put, and puts it again
        ring.take_grant(stream);
        ring.grant(stream);
        continue;
      }
      ring.step(stream);
    }
    team.synchronize(stream);
    ring.expect_sums(steps - 1);
    team.barrier();
  });
}

TEST_P(SignalDevice, CapturedKernelsMayBeReplayed) {
  on_rings([](const Team& team) {
    const Ring ring(team);
    const Stream stream(team.device());
    Draws draws(43);
    ring.grant(stream);
    constexpr int in_graph = 5;
    constexpr int launches = 40;
    const CapturedGraph graph(team.device(), stream, [&] {
      for (int i = 0; i < in_graph; ++i) ring.step(stream);
    });
    int steps = 0;
    for (int i = 0; i < launches; ++i, steps += in_graph) {
      if (i % 4 == 0) delay_somebody(team, stream, draws);
      graph.launch(stream);
      if (i % 3 == 0) {
        ring.step(stream);
        ++steps;
      }
    }
    team.synchronize(stream);
    ring.expect_sums(steps);
    team.barrier();
  });
}

TEST_P(SignalDevice, AWaitThatFailsSaysSoAndNamesThePeer) {
  on(2, [](World& world) {
    const Team team = world.team({0, 1});
    auto tensor = SymmetricTensor::empty(team, {1}, i32, {.channels = 2});
    tensor.rendezvous();
    Buffer outcome(team.shared_device(), sizeof(int));
    const Stream stream(team.device());
    ASSERT_EQ(cudaSetDevice(team.device().id().index), cudaSuccess);
    ASSERT_EQ(load_ring_kernels(), cudaSuccess);
    team.set_timeout(300ms);
    world.team().barrier();
    if (world.rank() == 1) {  // nobody ever signals on this channel
      ASSERT_EQ(launch_wait_alone(tensor.signal_pad().signal_from(0, 1), team.control(),
                                  static_cast<int*>(outcome.data()), native(stream)),
                cudaSuccess);
      expect_error<Timeout>([&] { team.synchronize(stream); }, {"rank 0 ", "channel 1 has counted 0 of 1 signals"});
      int said = -1;
      team.device().download(&said, outcome.data(), sizeof(said));  // the context lives on
      EXPECT_EQ(said, 0);
    }
    world.team().barrier();
    EXPECT_TRUE(team.failed());
  });
}

TEST_P(SignalDevice, AnAbortEndsAWait) {
  on(2, [](World& world) {
    const Team team = world.team({1, 0});
    auto tensor = SymmetricTensor::empty(team, {1}, i32);
    tensor.rendezvous();
    Buffer outcome(team.shared_device(), sizeof(int));
    const Stream stream(team.device());
    ASSERT_EQ(cudaSetDevice(team.device().id().index), cudaSuccess);
    ASSERT_EQ(load_ring_kernels(), cudaSuccess);
    world.team().barrier();
    const auto begin = std::chrono::steady_clock::now();
    if (world.rank() == 0) {
      std::this_thread::sleep_for(50ms);
      team.abort("no more");
    } else {
      ASSERT_EQ(launch_wait_alone(tensor.signal_pad().signal_from(1, 0), team.control(),
                                  static_cast<int*>(outcome.data()), native(stream)),
                cudaSuccess);
      expect_error<Aborted>([&] { team.synchronize(stream); }, {"no more"});
      int said = -1;
      team.device().download(&said, outcome.data(), sizeof(said));
      EXPECT_EQ(said, 0);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, team.timeout() / 2);
    }
    world.team().barrier();
  });
}

TEST_P(SignalDevice, WhatAKernelIsToWaitForIsChecked) {
  on(2, [](World& world) {
    auto tensor = SymmetricTensor::empty(world.team(), {1}, i32, {.channels = 2});
    tensor.rendezvous();
    const SignalPad& pad = tensor.signal_pad();
    expect_error<InvalidArgument>([&] { static_cast<void>(pad.signal_from(2, 0)); }, {"2"});
    expect_error<InvalidArgument>([&] { static_cast<void>(pad.signal_from(1, 2)); }, {"2"});
    expect_error<InvalidArgument>([&] { static_cast<void>(pad.signal_from(1, 0, 0)); }, {"0 signals"});
    world.team().barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Device, SignalDevice, ::testing::Values(DeviceType::cuda), device_name);

}  // namespace
}  // namespace tandem::testing
