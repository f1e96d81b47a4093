// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tandem/team/team.hpp"

namespace tandem::examples {

/// Collective: every rank's text.
[[nodiscard]] std::vector<std::string> gathered(const Team& team, const std::string& text);

/// Collective: the sum of every rank's number.
[[nodiscard]] std::int64_t summed(const Team& team, std::int64_t number);

}  // namespace tandem::examples
