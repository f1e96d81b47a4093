// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "tandem/base/error.hpp"

#include "base/format.hpp"

namespace tandem {

/// The algorithms of every linear plan, as LinearOptions::algorithm names them.
inline constexpr std::array<std::string_view, 2> algorithm_names{"pipeline", "sequence"};

/// The function that runs the algorithm `chosen`, of a plan's functions in the order of the names. A plan without one
/// for each name does not compile.
template <typename Function, std::size_t count>
  requires(count == algorithm_names.size())
[[nodiscard]] Function algorithm_named(std::string_view chosen, const Function (&functions)[count]) {
  const auto at = std::ranges::find(algorithm_names, chosen);
  if (at == algorithm_names.end()) throw InvalidArgument(format("no linear plan has an algorithm '{}'", chosen));
  return functions[at - algorithm_names.begin()];
}

}  // namespace tandem
