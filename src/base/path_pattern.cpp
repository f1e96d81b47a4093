// SPDX-License-Identifier: Apache-2.0
#include "base/path_pattern.hpp"

#include <cstddef>
#include <unistd.h>

#include "base/host_name.hpp"

namespace tandem {

std::string expand_path(const std::string& pattern, int rank) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    switch (next) {
      case 'h': path += host_name(); break;
      case 'p': path += std::to_string(::getpid()); break;
      case 'r': path += std::to_string(rank); break;
      default: path += pattern[i]; continue;
    }
    ++i;
  }
  return path;
}

}  // namespace tandem
