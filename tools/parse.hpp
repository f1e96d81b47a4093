// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/device_id.hpp"

namespace tandem::tools {

// What stands on a command line. `option` is the option's name; each throws InvalidArgument with it, what was given and
// what is allowed.

/// A whole number from `least` to `most`.
[[nodiscard]] std::int64_t parse_integer(std::string_view option, std::string_view text, std::int64_t least,
                                         std::int64_t most);
/// Bytes: "512", "64K", "1M", "2G" (powers of 1024), also with a B ("64KB") or a fraction ("1.5K").
[[nodiscard]] std::int64_t parse_bytes(std::string_view option, std::string_view text);
/// "64K", "1M" where that is exact, else the number.
[[nodiscard]] std::string bytes_to_string(std::int64_t bytes);

/// A product's global sizes: M tokens, N outputs, K inputs.
struct Shape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  friend bool operator==(const Shape&, const Shape&) = default;
};
/// "M,N,K"
[[nodiscard]] Shape parse_shape(std::string_view option, std::string_view text);
[[nodiscard]] std::string to_string(const Shape& shape);

/// Why no files can be made in a folder, which may have to be made first; empty if they can.
[[nodiscard]] std::string why_no_files_in(const std::string& folder);
/// That they can, and that none of `files` is there and may not be written.
void expect_folder(std::string_view option, const std::string& folder, std::initializer_list<std::string_view> files);
/// The path of a file that can be written, so that nobody hears at the end of a long run that it cannot.
[[nodiscard]] std::string parse_file(std::string_view option, const std::string& text);
/// The same, or "-", which is stdout.
[[nodiscard]] std::string parse_output(std::string_view option, const std::string& text);

/// One of `known`. `what` names it: "unknown operation 'x'; known: …".
[[nodiscard]] std::size_t parse_name(std::string_view what, std::string_view text,
                                     const std::vector<std::string>& known);
/// "auto", "host" or "cuda"; auto is cuda where this process can use a GPU.
[[nodiscard]] DeviceType parse_device(std::string_view option, std::string_view text);

/// The names with ", " between them.
[[nodiscard]] std::string joined(const std::vector<std::string>& names, std::string_view separator = ", ");

}  // namespace tandem::tools
