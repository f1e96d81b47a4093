// SPDX-License-Identifier: Apache-2.0
#include "team/own_checks.hpp"

#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"

#include "base/format.hpp"

namespace tandem {
namespace {

DeviceId own_device(const std::optional<DeviceId>& given, const Launch& launch, const Env& env) {
  if (given) return *given;
  if (env.device == DeviceChoice::host) return {DeviceType::host, 0};
  const int gpus = device_count(DeviceType::cuda);
  if (gpus == 0) {
    if (env.device == DeviceChoice::automatic) return {DeviceType::host, 0};
    throw Unsupported(
        format("the device is to be 'cuda' (--device or TANDEM_DEVICE), but rank {} can use no CUDA device: {}",
               launch.rank, why_no_device(DeviceType::cuda)));
  }
  return {DeviceType::cuda, launch.local_rank % gpus};
}

}  // namespace

void check_launch(const Launch& launch) {
  const bool is_world = launch.world_size >= 1 && launch.world_size <= max_ranks;
  if (!is_world || launch.rank < 0 || launch.rank >= launch.world_size) {
    throw InvalidArgument(format("a launch of rank {} in a world of {} was given; allowed: 0 ≤ rank < world size ≤ {}",
                                 launch.rank, launch.world_size, max_ranks));
  }
  if (launch.nodes < 1) {
    throw InvalidArgument(format("a launch on {} nodes was given on rank {}; allowed: 1", launch.nodes, launch.rank));
  }
  if (launch.nodes > 1) {
    throw Unsupported(format("rank {}: {} started {} ranks on {} nodes; this version of Tandem runs on one node",
                             launch.rank, launch.launcher.empty() ? "the program" : launch.launcher, launch.world_size,
                             launch.nodes));
  }
  if (launch.local_size != launch.world_size || launch.local_rank < 0 || launch.local_rank >= launch.local_size) {
    throw InvalidArgument(format(
        "a launch of local rank {} of {} was given on rank {} of {} on one node; allowed: 0 ≤ local rank < local "
        "size, and as many local ranks as ranks",
        launch.local_rank, launch.local_size, launch.rank, launch.world_size));
  }
  if (launch.job.empty()) {
    throw InvalidArgument(
        format("a launch without a job's name was given on rank {}; allowed: a name that the ranks "
               "of the job share and no other job of this user has",
               launch.rank));
  }
}

DeviceId choose_device(const std::optional<DeviceId>& given, const Launch& launch, const Env& env) {
  const DeviceId id = own_device(given, launch, env);
  if (env.link && id.type != DeviceType::host) {
    throw InvalidArgument(
        format("TANDEM_LINK is set, but rank {} runs on {}; allowed: a link is emulated on the host "
               "device alone (TANDEM_DEVICE=host)",
               launch.rank, name(id.type)));
  }
  return id;
}

}  // namespace tandem
