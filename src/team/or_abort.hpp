// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string_view>
#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/team/team.hpp"

#include "base/format.hpp"

namespace tandem {

/// Runs a part of a collective call that may fail on this rank alone. If it does, the other members are told, and do
/// not wait out their deadline for a call that never comes.
template <typename Body> decltype(auto) or_abort(const Team& team, std::string_view what, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::exception& error) {
    team.abort(format("{}: {}", what, error.what()));
    throw;
  }
}

/// The same for what fails on all ranks alike, unless it is for want of this one's memory.
template <typename Body> decltype(auto) memory_or_abort(const Team& team, std::string_view what, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const OutOfMemory& error) {
    team.abort(format("{}: {}", what, error.what()));
    throw;
  }
}

}  // namespace tandem
