// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/format.hpp"

namespace tandem {

/// Why `value` is none of its enum, whose values are 0 to `last`, as another language's binding or a file may pass one;
/// else empty. `what` names it.
template <typename Enum> std::string why_unknown(std::string_view what, Enum value, Enum last) {
  const auto number = static_cast<int>(value);
  const auto largest = static_cast<int>(last);
  if (number >= 0 && number <= largest) return "";
  return format("{} number {} is not known; known: 0 to {}", what, number, largest);
}

}  // namespace tandem
