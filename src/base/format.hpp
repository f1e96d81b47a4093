// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>
#include <string>

#include "tandem/base/export.hpp"

namespace tandem {

namespace detail {
/// Out of line, so that only one source file compiles fmt's implementation.
[[nodiscard]] TANDEM_API std::string vformat(fmt::string_view text, fmt::format_args arguments);
}  // namespace detail

/// Formats text with {} placeholders, which are checked against the arguments at compile time. An object rather than a
/// function, so that a call with a std::string does not also find std::format by argument-dependent lookup.
struct Format {
  template <typename... Arguments>
  [[nodiscard]] std::string operator()(fmt::format_string<Arguments...> text, Arguments&&... arguments) const {
    return detail::vformat(text, fmt::make_format_args(arguments...));
  }
};
inline constexpr Format format;

}  // namespace tandem
