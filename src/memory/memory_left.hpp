// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace tandem {

/// How much memory the system would still give this process, and which limit that is.
struct MemoryLeft {
  std::size_t bytes = 0;
  std::string_view where;  ///< "this machine", or "this process's control group"
};

/// The minimum of the kernel's estimate for the machine (MemAvailable) and of what is left below the limit of each
/// cgroup (cgroups(7), v1 and v2) of the process, up to the root; cached files that could be dropped count as left.
/// `root` is where /proc and /sys are found (for tests). Without these files the result is the largest std::size_t.
[[nodiscard]] MemoryLeft memory_left(const std::filesystem::path& root = "/");

}  // namespace tandem
