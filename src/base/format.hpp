// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>
#include <string>

#include "tandem/base/export.hpp"

namespace tandem {

namespace detail {
/// Out of line, so that one source file pays for fmt's implementation.
[[nodiscard]] TANDEM_API std::string vformat(fmt::string_view text, fmt::format_args arguments);
}  // namespace detail

/// Text with its {} filled in; placeholders are checked against the arguments when this is compiled. An object and not
/// a function, so that a call with a std::string does not find std::format as well.
struct Format {
  template <typename... Arguments>
  [[nodiscard]] std::string operator()(fmt::format_string<Arguments...> text, Arguments&&... arguments) const {
    return detail::vformat(text, fmt::make_format_args(arguments...));
  }
};
inline constexpr Format format;

}  // namespace tandem
