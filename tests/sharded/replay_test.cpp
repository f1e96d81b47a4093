// SPDX-License-Identifier: Apache-2.0
// Steps of sharded parameters in a CUDA graph that is replayed thousands of times.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/device/device.hpp"
#include "tandem/sharded/sharded_parameters.hpp"

#include "sharded/training.hpp"
#include "support/devices.hpp"
#include "support/oracle.hpp"
#include "support/replayed_runs.hpp"

namespace tandem {
namespace {

using testing::GuardedTensor;
using testing::ReplayedRuns;

class ReplayStress : public testing::OnEachDevice {};

/// Adds a run of a whole step: shards are loaded from one of two sets, what is gathered is also this rank's gradient,
/// and the gradients of all groups are the result.
void add_step(const Team& team, ReplayedRuns& runs, DType dtype, DType shards, int buffers) {
  const auto groups = testing::odd_groups();
  const auto parameters = std::make_shared<ShardedParameters>(
      team, ShardedSpec{.groups = groups, .dtype = dtype, .shard_dtype = shards}, ShardedOptions{.buffers = buffers});
  std::vector<std::array<std::shared_ptr<GuardedTensor>, 2>> wholes;
  for (const ParameterGroup& group : groups) {
    for (const Parameter& parameter : group.parameters) {
      auto& sets = wholes.emplace_back();
      for (auto& set : sets) {
        const std::uint64_t key =
            testing::key(testing::seed(), {wholes.size(), static_cast<std::uint64_t>(&set - sets.data())});
        std::vector<double> values;
        for (std::int64_t i = 0; i < parameter.sizes.numel(); ++i) {
          values.push_back(static_cast<double>(testing::random_bits(key, static_cast<std::uint64_t>(i)) % 9) - 4);
        }
        set = std::make_shared<GuardedTensor>(team.shared_device(), parameter.sizes, dtype,
                                              std::span<const double>(values));
      }
    }
  }
  std::int64_t elements = 0;
  for (int group = 0; group < parameters->groups(); ++group) elements += parameters->gradient(group).numel();
  const auto result = std::make_shared<GuardedTensor>(team, Dims{elements}, f32);
  const auto queue = [&runs, parameters, wholes, result, device = team.shared_device()](int set) {
    const StreamRef stream = runs.stream();
    std::size_t whole = 0;
    const int count = parameters->groups();
    for (int group = 0; group < count; ++group) {
      const auto in_group = static_cast<int>(testing::odd_groups()[static_cast<std::size_t>(group)].parameters.size());
      for (int index = 0; index < in_group; ++index) {
        parameters->load(group, index, wholes[whole++][static_cast<std::size_t>(set)]->view(), stream);
      }
    }
    for (int group = 0; group < count; ++group) {
      static_cast<void>(parameters->unshard(group, stream));
      parameters->reshard(group, stream);
    }
    for (int group = count - 1; group >= 0; --group) {
      const auto gathered = parameters->unshard(group, stream);
      const auto gradients = parameters->gradients(group, stream);
      for (std::size_t i = 0; i < gathered.size(); ++i) {
        device->copy(stream, {.dst = gradients[i].data(), .src = gathered[i].data(), .bytes = gathered[i].bytes()});
      }
      parameters->reshard(group, stream);
      parameters->reduce_gradients(group, stream, {.alpha = 2});
      const auto again = parameters->gradients(group, stream);
      for (std::size_t i = 0; i < gathered.size(); ++i) {
        device->fill(stream, again[i].data(), std::byte{0}, again[i].bytes());
      }
      parameters->reduce_gradients(group, stream, {.beta = 0.5F});
    }
    parameters->finish(stream);
    auto* into = result->view().data_as<std::byte>();
    for (int group = 0; group < count; ++group) {
      const TensorView gradient = parameters->gradient(group);
      device->copy(stream, {.dst = into, .src = gradient.data(), .bytes = gradient.bytes()});
      into += gradient.bytes();
    }
  };
  runs.add(parameters->describe() + " in " + std::string(name(dtype)), result->view(), queue);
}

TEST_P(ReplayStress, StepsOfShardedParameters) {
  const int ranks = std::clamp(device_count(GetParam()), 2, 4);
  const int replays = static_cast<int>(std::ceil(1e4 * testing::stress_scale()));
  on(ranks,
     [replays](World& world) {
       ReplayedRuns runs(world.team());
       for (const DType dtype : {f32, bf16}) {
         for (const int buffers : {1, 2}) add_step(world.team(), runs, dtype, dtype, buffers);
       }
       add_step(world.team(), runs, bf16, f32, 2);
       runs.replay(replays);
     },
     {.limit = std::chrono::seconds(580)});
}

INSTANTIATE_TEST_SUITE_P(Device, ReplayStress, ::testing::Values(DeviceType::cuda), testing::device_name);

}  // namespace
}  // namespace tandem
