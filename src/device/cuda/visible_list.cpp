// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/visible_list.hpp"

#include <charconv>
#include <cstddef>
#include <system_error>
#include <vector>

namespace tandem::cuda {

std::optional<int> count_listed(std::string_view list, int gpus) {
  // As CUDA reads it: numbers, up to the first that names no GPU; and no GPU at all if one is named twice.
  std::vector<bool> named(static_cast<std::size_t>(gpus));
  int count = 0;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view word = list.substr(0, comma);
    int index = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), index);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    if (index < 0 || index >= gpus) break;
    if (named[static_cast<std::size_t>(index)]) return 0;
    named[static_cast<std::size_t>(index)] = true;
    ++count;
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return count;
}

}  // namespace tandem::cuda
