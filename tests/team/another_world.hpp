// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <string>

#include "tandem/team/world.hpp"

#include "support/errors.hpp"

namespace tandem::testing {

/// How to join another world of the same processes, named after `name`.
[[nodiscard]] inline InitOptions another(const World& world, const std::string& name) {
  Launch launch = world.launch();
  launch.job += name;
  return {.launch = launch, .env = Env{}, .device = DeviceId{DeviceType::host, 0}};
}

/// What `init` says when it refuses with a T.
template <typename T>
[[nodiscard]] std::string refusal(const InitOptions& options,
                                  const std::source_location& where = std::source_location::current()) {
  return error_of<T>([&] { static_cast<void>(init(options)); }, where);
}

}  // namespace tandem::testing
