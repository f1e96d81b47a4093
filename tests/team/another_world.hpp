// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <string>

#include "tandem/team/world.hpp"

#include "support/errors.hpp"

namespace tandem::testing {

/// The options to join another world of the same ranks on the host, whose job has this one's name and `name` appended.
[[nodiscard]] inline InitOptions another(const World& world, const std::string& name) {
  Launch launch = world.launch();
  launch.job += name;
  return {.launch = launch, .env = Env{}, .device = DeviceId{DeviceType::host, 0}};
}

/// The message of the T that `init` must throw.
template <typename T>
[[nodiscard]] std::string refusal(const InitOptions& options,
                                  const std::source_location& where = std::source_location::current()) {
  return error_of<T>([&] { static_cast<void>(init(options)); }, where);
}

}  // namespace tandem::testing
