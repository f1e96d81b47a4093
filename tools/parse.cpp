// SPDX-License-Identifier: Apache-2.0
#include "tools/parse.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "tandem/base/error.hpp"
#include "tandem/device/device.hpp"

#include "base/format.hpp"

namespace tandem::tools {
namespace {

template <typename T> std::optional<T> number(std::string_view text, std::string_view* rest = nullptr) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto used = static_cast<std::size_t>(end - text.data());
  if (error != std::errc{} || (rest == nullptr && used != text.size())) return std::nullopt;
  if (rest != nullptr) *rest = text.substr(used);
  return value;
}

constexpr std::int64_t kib = 1024;
constexpr std::array<std::pair<char, std::int64_t>, 4> byte_units{
    {{'K', kib}, {'M', kib* kib}, {'G', kib* kib* kib}, {'T', kib* kib* kib* kib}}};

/// The factor for "", "B", "K", "KB", "k", …; 0 for anything else.
std::int64_t byte_unit(std::string_view suffix) {
  if (!suffix.empty() && suffix.back() == 'B') suffix.remove_suffix(1);
  if (suffix.empty()) return 1;
  for (const auto& [letter, factor] : byte_units) {
    if (suffix.size() == 1 && (suffix[0] == letter || suffix[0] == letter + ('a' - 'A'))) return factor;
  }
  return 0;
}

}  // namespace

std::int64_t parse_integer(std::string_view option, std::string_view text, std::int64_t least, std::int64_t most) {
  const auto value = number<std::int64_t>(text);
  if (!value || *value < least || *value > most) {
    // Otherwise it would be unclear that a number that does not fit in an integer is too large.
    const bool tells_most = most != std::numeric_limits<std::int64_t>::max() ||
                            (!value && text.find_first_not_of("0123456789") == std::string_view::npos && !text.empty());
    throw InvalidArgument(format("{} is '{}'; allowed: a whole number from {}{}", option, text, least,
                                 tells_most ? format(" to {}", most) : ""));
  }
  return *value;
}

double parse_number(std::string_view option, std::string_view text, double least, double most) {
  const auto value = number<double>(text);
  if (value && *value >= least && *value <= most) return *value;  // no NaN is
  throw InvalidArgument(
      format("{} is '{}'; allowed: a number from {} to {}, such as 2 or 0.5", option, text, least, most));
}

std::int64_t parse_bytes(std::string_view option, std::string_view text) {
  std::string_view suffix;
  const auto value = number<double>(text, &suffix);
  const std::int64_t factor = value ? byte_unit(suffix) : 0;
  const double bytes = value.value_or(-1) * static_cast<double>(factor);
  if (factor == 0 || std::isnan(bytes) || bytes < 0 || bytes >= 0x1p63 || std::floor(bytes) != bytes) {
    throw InvalidArgument(format("{} is '{}'; allowed: a number of bytes such as 512, 64K, 1M or 2G", option, text));
  }
  return static_cast<std::int64_t>(bytes);
}

std::string bytes_to_string(std::int64_t bytes) {
  for (auto unit = byte_units.rbegin(); unit != byte_units.rend(); ++unit) {
    if (bytes != 0 && bytes % unit->second == 0) return format("{}{}", bytes / unit->second, unit->first);
  }
  return format("{}", bytes);
}

Shape parse_shape(std::string_view option, std::string_view text) {
  Shape shape;
  std::string_view rest = text;
  const std::array<std::int64_t*, 3> extents{&shape.m, &shape.n, &shape.k};
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const auto value = number<std::int64_t>(rest, &rest);
    const bool last = i + 1 == extents.size();
    // Up to 2^31 each, so that a product of two cannot overflow.
    if (!value || *value < 0 || *value > (std::int64_t{1} << 31) || (last ? !rest.empty() : !rest.starts_with(','))) {
      throw InvalidArgument(format(
          "{} is '{}'; allowed: M,N,K, three whole numbers from 0 to 2147483648 such as 512,1024,256", option, text));
    }
    *extents[i] = *value;
    if (!last) rest.remove_prefix(1);
  }
  return shape;
}

std::string to_string(const Shape& shape) { return format("{},{},{}", shape.m, shape.n, shape.k); }

std::string parse_output(std::string_view option, const std::string& text) {
  return text == "-" ? text : parse_file(option, text);
}

std::string why_no_files_in(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path there = fs::absolute(folder.empty() ? "." : folder, error).lexically_normal();
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  if (!fs::is_directory(there, error)) return format("'{}' is no folder", there.string());
  if (::access(there.c_str(), W_OK | X_OK) == 0) return "";
  return format("nothing may be written in '{}': {}", there.string(), std::strerror(errno));
}

void expect_folder(std::string_view option, const std::string& folder, std::initializer_list<std::string_view> files) {
  std::string why = folder.empty() ? "names none" : why_no_files_in(folder);
  for (const std::string_view each : files) {
    const std::filesystem::path file = std::filesystem::path(folder) / each;
    std::error_code error;
    if (!why.empty() || !std::filesystem::exists(file, error)) continue;
    if (std::filesystem::is_directory(file, error) || ::access(file.c_str(), W_OK) != 0) {
      why = format("its '{}' may not be written", each);
    }
  }
  if (why.empty()) return;
  throw InvalidArgument(format("{} is '{}', and {}; allowed: a folder that can be written", option, folder, why));
}

std::string parse_file(std::string_view option, const std::string& text) {
  if (text == "-") {
    throw InvalidArgument(format("{} is '-', and does not go to stdout; allowed: a file that can be written", option));
  }
  const std::filesystem::path path(text);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code error;  // a path that cannot be examined is none of these
  const bool folder_there = std::filesystem::is_directory(folder, error);
  const bool is_file = !path.filename().empty() && !std::filesystem::is_directory(path, error);
  const bool there = is_file && std::filesystem::exists(path, error);
  if (folder_there && is_file && ::access(there ? path.c_str() : folder.c_str(), W_OK) == 0) return text;
  throw InvalidArgument(format("{} is '{}', and {}; allowed: a file that can be written", option, text,
                               !folder_there  ? format("there is no folder '{}'", folder.string())
                               : text.empty() ? "names none"
                               : !is_file     ? "that is a folder"
                                              : "it may not be written"));
}

std::size_t parse_name(std::string_view what, std::string_view text, const std::vector<std::string>& known) {
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (text == known[i]) return i;
  }
  throw InvalidArgument(format("{} is '{}'; allowed: {}", what, text, joined(known)));
}

DeviceChoice parse_device(std::string_view option, std::string_view text) {
  return parse_one_of(option, text, std::array{DeviceChoice::automatic, DeviceChoice::host, DeviceChoice::cuda});
}

DeviceType device_of(DeviceChoice choice) {
  if (choice == DeviceChoice::host) return DeviceType::host;
  if (choice == DeviceChoice::cuda) return DeviceType::cuda;
  return device_count(DeviceType::cuda) > 0 ? DeviceType::cuda : DeviceType::host;
}

std::string joined(const std::vector<std::string>& names, std::string_view separator) {
  std::string text;
  for (const std::string& each : names) text += format("{}{}", text.empty() ? "" : separator, each);
  return text;
}

}  // namespace tandem::tools
