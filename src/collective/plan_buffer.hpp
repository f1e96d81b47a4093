// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "tandem/device/buffer.hpp"
#include "tandem/team/team.hpp"

#include "team/or_abort.hpp"

namespace tandem {

/// A plan's own memory, in its collective constructor: if this rank fails to allocate it, the other members are told.
inline std::shared_ptr<Buffer> plan_buffer(const Team& team, std::size_t bytes) {
  return or_abort(team, "a plan's memory", [&] { return std::make_shared<Buffer>(team.shared_device(), bytes); });
}

}  // namespace tandem
