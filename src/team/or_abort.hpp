// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string_view>
#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/team/team.hpp"

#include "base/format.hpp"
#include "team/rethrow.hpp"

namespace tandem {

/// Runs a part of a collective call that may fail on this rank alone. If it throws, the team is aborted, so that the
/// other members do not wait until their deadline for a call that this rank will not make.
template <typename Body> decltype(auto) or_abort(const Team& team, std::string_view what, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::exception& error) {
    team.abort(format("{}: {}", what, error.what()));
    rethrow_from(team, what);
  }
}

/// Asks this rank's device about a stream, before a run. A device that has failed fails the team: what this rank has
/// queued will not take place, and its peers wait for it. InvalidArgument is the caller's mistake, and does not.
template <typename Body> decltype(auto) ask_device(const Team& team, std::string_view what, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const InvalidArgument&) {
    rethrow_from(team, what);
  } catch (const std::exception& error) {
    team.abort(format("{}: {}", what, error.what()));
    rethrow_from(team, what);
  }
}

}  // namespace tandem
