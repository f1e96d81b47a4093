// SPDX-License-Identifier: Apache-2.0
#include "base/path_pattern.hpp"

#include <cstddef>
#include <string_view>
#include <unistd.h>

#include "tandem/base/error.hpp"

#include "base/format.hpp"
#include "base/host_name.hpp"

namespace tandem {

std::string unknown_in_path(const std::string& pattern) {
  constexpr std::string_view known = "hpr%";
  for (std::size_t i = pattern.find('%'); i != std::string::npos; i = pattern.find('%', i + 2)) {
    if (i + 1 == pattern.size() || known.find(pattern[i + 1]) == std::string_view::npos) return pattern.substr(i, 2);
  }
  return "";
}

std::string expand_path(const std::string& pattern, int rank) {
  if (const std::string unknown = unknown_in_path(pattern); !unknown.empty()) {
    throw InvalidArgument(
        format("rank {} was given the path '{}', in which '{}' is unknown; allowed: %h for the host, %p for the "
               "process, %r for the rank, %% for a %",
               rank, pattern, unknown));
  }
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      path += pattern[i];
      continue;
    }
    switch (pattern[++i]) {
      case 'h': path += host_name(); break;
      case 'p': path += std::to_string(::getpid()); break;
      case 'r': path += std::to_string(rank); break;
      default: path += '%';
    }
  }
  return path;
}

}  // namespace tandem
