// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "tandem/team/world.hpp"

namespace tandem::wrong_use {

enum class Kind { invalid_argument, unsupported };

/// What a row runs: on every rank of a world, or without a world.
struct Wrong {
  template <typename Body>
    requires std::is_invocable_v<const Body&, World&>
  Wrong(const Body& body) : in_world(body) {}
  template <typename Body>
    requires std::is_invocable_v<const Body&>
  Wrong(const Body& body) : alone(body) {}

  std::function<void(World&)> in_world;
  std::function<void()> alone;
};

/// One wrong use, and what its error must say.
struct Row {
  const char* name;
  int ranks;  ///< 0: no world is needed
  Wrong wrong;
  std::vector<std::string> fragments;
  Kind kind = Kind::invalid_argument;
};

// The rows of each layer of the library, and of `tandem` command lines.
[[nodiscard]] const std::vector<Row>& base_rows();
[[nodiscard]] const std::vector<Row>& team_rows();
[[nodiscard]] const std::vector<Row>& memory_rows();
[[nodiscard]] const std::vector<Row>& collective_rows();
[[nodiscard]] const std::vector<Row>& linear_rows();
[[nodiscard]] const std::vector<Row>& command_rows();

}  // namespace tandem::wrong_use
