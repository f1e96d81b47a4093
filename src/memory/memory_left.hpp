// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace tandem {

/// How many bytes the system would still give this process, and who says so.
struct MemoryLeft {
  std::size_t bytes = 0;
  std::string_view where;  ///< "this machine", or "this process's control group"
};

/// The least of the kernel's own estimate for the machine (MemAvailable) and of what each control group (cgroups(7), v1
/// and v2) that the process is in, up to the root, leaves below its limit, with files that it could drop counted as
/// left. `root` is where /proc and /sys are looked for (tests). Without these files all of the address space is left.
[[nodiscard]] MemoryLeft memory_left(const std::filesystem::path& root = "/");

}  // namespace tandem
