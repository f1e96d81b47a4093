// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/device_id.hpp"
#include "tandem/base/env.hpp"

namespace tandem::tools {

// Parsers of command-line values. `option` is the option's name; each throws InvalidArgument, which states it, the
// value and what is allowed.

/// A whole number from `least` to `most`.
[[nodiscard]] std::int64_t parse_integer(std::string_view option, std::string_view text, std::int64_t least,
                                         std::int64_t most);
/// A number from `least` to `most`, with or without a fraction.
[[nodiscard]] double parse_number(std::string_view option, std::string_view text, double least, double most);
/// Bytes: "512", "64K", "1M", "2G" (powers of 1024), also with a B ("64KB") or a fraction ("1.5K").
[[nodiscard]] std::int64_t parse_bytes(std::string_view option, std::string_view text);
/// "64K", "1M" if that is exact, else the number.
[[nodiscard]] std::string bytes_to_string(std::int64_t bytes);

/// The global sizes of a linear operation: M tokens, N outputs, K inputs.
struct Shape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  friend bool operator==(const Shape&, const Shape&) = default;
};
/// "M,N,K"
[[nodiscard]] Shape parse_shape(std::string_view option, std::string_view text);
[[nodiscard]] std::string to_string(const Shape& shape);

/// Why no files can be created in a folder (which may not exist yet); empty if they can.
[[nodiscard]] std::string why_no_files_in(const std::string& folder);
/// Throws InvalidArgument unless files can be created in the folder, and those of `files` that exist can be written.
void expect_folder(std::string_view option, const std::string& folder, std::initializer_list<std::string_view> files);
/// The path of a file that can be written: checked now, so that a long run does not fail at its end.
[[nodiscard]] std::string parse_file(std::string_view option, const std::string& text);
/// As `parse_file`, but also allows "-" for stdout.
[[nodiscard]] std::string parse_output(std::string_view option, const std::string& text);

/// The index of `text` in `known`. `what` names it in errors: "WHAT is 'x'; allowed: …".
[[nodiscard]] std::size_t parse_name(std::string_view what, std::string_view text,
                                     const std::vector<std::string>& known);
/// The one of `all` whose name is `text`, with the errors of `parse_name`.
template <typename Enum, std::size_t count>
[[nodiscard]] Enum parse_one_of(std::string_view what, std::string_view text, const std::array<Enum, count>& all) {
  std::vector<std::string> names;
  for (const Enum each : all) names.emplace_back(name(each));
  return all[parse_name(what, text, names)];
}
/// "auto", "host" or "cuda".
[[nodiscard]] DeviceChoice parse_device(std::string_view option, std::string_view text);
/// What the choice means here: `automatic` is cuda if this process can use a GPU.
[[nodiscard]] DeviceType device_of(DeviceChoice choice);

/// The names, separated by ", ".
[[nodiscard]] std::string joined(const std::vector<std::string>& names, std::string_view separator = ", ");

}  // namespace tandem::tools
