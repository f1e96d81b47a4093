// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "tandem/base/log.hpp"

namespace tandem {

/// Sees to it that `count` more file descriptors find room, before one is missing: what a message brings is lost
/// where it finds none. Raises the process's soft limit towards the hard one, no further than needed (programs that
/// use select() cannot use descriptors above 1023), and tells the log. Where the hard limit is too low, the call that
/// finds no room says so.
void make_room_for_descriptors(std::size_t count, const Log& log);

/// For the errors of calls that found no room: the two limits.
[[nodiscard]] std::string describe_descriptor_limit();

}  // namespace tandem
