// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

/// Rethrows the exception that is being handled. A device's errors (DeviceError, OutOfMemory, Unsupported,
/// InvalidArgument) do not know the rank and the operation: these are prefixed, "`what` on rank 1 of 4: …", unless the
/// text names the rank already.
[[noreturn]] void rethrow_from(const Team& team, std::string_view what);

/// Runs a part of a call that each rank makes by itself, and rethrows its errors so; `or_abort` is for collective ones.
template <typename Body> decltype(auto) or_rethrow(const Team& team, std::string_view what, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error&) {
    rethrow_from(team, what);
  }
}

}  // namespace tandem
