// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "tandem/base/log.hpp"

namespace tandem {

/// Makes room for `count` more file descriptors in advance: those that arrive with a message when the process is at its
/// limit are lost. Raises the process's soft limit towards the hard one, no further than needed (programs that use
/// select() cannot use descriptors above 1023), and logs that. If the hard limit is too low, the later call that gets
/// no descriptor reports it.
void make_room_for_descriptors(std::size_t count, const Log& log);

/// The two limits as text, for the errors of calls that got no descriptor.
[[nodiscard]] std::string describe_descriptor_limit();

}  // namespace tandem
