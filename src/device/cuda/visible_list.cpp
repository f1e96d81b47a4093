// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/visible_list.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <vector>

namespace tandem::cuda {
namespace {

constexpr int no_gpu = -1;

/// The GPU that a word of the list names, or `no_gpu`; empty if only CUDA can tell.
std::optional<int> gpu_named(std::string_view word, std::span<const std::string> uuids) {
  if (word.starts_with("GPU-")) {
    // A prefix of a UUID is enough if it is unique.
    const auto is_meant = [word](const std::string& uuid) { return uuid.starts_with(word); };
    if (std::ranges::count_if(uuids, is_meant) != 1) return no_gpu;
    return static_cast<int>(std::ranges::find_if(uuids, is_meant) - uuids.begin());
  }
  int index = no_gpu;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), index);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return index < 0 || index >= static_cast<int>(uuids.size()) ? no_gpu : index;
}

}  // namespace

std::optional<int> count_listed(std::string_view list, std::span<const std::string> uuids) {
  // Like CUDA: the list ends at the first word that names no GPU, and there is no GPU at all if one is named twice.
  std::vector<bool> named(uuids.size());
  int count = 0;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::optional<int> gpu = gpu_named(list.substr(0, comma), uuids);
    if (!gpu) return std::nullopt;
    if (*gpu == no_gpu) break;
    if (named[static_cast<std::size_t>(*gpu)]) return 0;
    named[static_cast<std::size_t>(*gpu)] = true;
    ++count;
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return count;
}

}  // namespace tandem::cuda
