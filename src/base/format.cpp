// SPDX-License-Identifier: Apache-2.0
#define FMT_HEADER_ONLY  // NOLINT(readability-identifier-naming): fmt's name
#include "base/format.hpp"

#include <fmt/format.h>

namespace tandem::detail {

std::string vformat(fmt::string_view text, fmt::format_args arguments) { return fmt::vformat(text, arguments); }

}  // namespace tandem::detail
