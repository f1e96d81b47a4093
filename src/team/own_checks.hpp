// SPDX-License-Identifier: Apache-2.0
// What `init` checks on each rank before the ranks meet. `tandem info` checks the same without starting any.
#pragma once

#include <optional>

#include "tandem/base/device_id.hpp"
#include "tandem/base/env.hpp"
#include "tandem/base/export.hpp"
#include "tandem/team/launch.hpp"

namespace tandem {

/// Rejects several nodes, and values that no launcher gives: ranks could share a GPU or cores, or join another job.
/// Throws Unsupported or InvalidArgument.
TANDEM_API void check_launch(const Launch& launch);

/// The rank's device: `given`, or else what the environment and the machine say. Throws Unsupported if there is no such
/// device, and InvalidArgument if the environment emulates a link of another one.
[[nodiscard]] TANDEM_API DeviceId choose_device(const std::optional<DeviceId>& given, const Launch& launch,
                                                const Env& env);

}  // namespace tandem
