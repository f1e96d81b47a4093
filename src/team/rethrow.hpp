// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "tandem/team/team.hpp"

namespace tandem {

/// Rethrows the exception that is being handled. A device's errors (DeviceError, OutOfMemory, Unsupported,
/// InvalidArgument) do not know the rank and the operation: these are prefixed, "`what` on rank 1 of 4: …", unless the
/// text names the rank already.
[[noreturn]] void rethrow_from(const Team& team, std::string_view what);

}  // namespace tandem
