// SPDX-License-Identifier: Apache-2.0
#include "memory/memory_left.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "base/format.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// The number after `key` in a file of lines "KEY NUMBER ...".
std::optional<std::size_t> value_of(std::string_view key, const fs::path& file) {
  std::ifstream lines(file);
  std::string name;
  std::size_t number = 0;
  std::string rest;
  while (lines >> name >> number && std::getline(lines, rest)) {
    if (name == key) return number;
  }
  return std::nullopt;
}

/// The number that a file contains; empty for "max", or if there is no such file.
std::optional<std::size_t> number_in(const fs::path& file) {
  std::size_t number = 0;
  if (std::ifstream(file) >> number) return number;
  return std::nullopt;
}

/// The files in which a version of cgroups keeps a group's memory limit and usage, and how much the kernel could drop.
struct Files {
  const char* mount;
  const char* limit;
  const char* usage;
  const char* droppable;  // in memory.stat
};
constexpr Files first_version{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                              "total_inactive_file"};
constexpr Files second_version{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

/// The memory left below the limits of the cgroup `group` and its ancestors up to the mount.
std::size_t left_in_group(const Files& files, const fs::path& root, const std::string& group) {
  const fs::path mount = root / files.mount;
  fs::path folder = mount / fs::path(group).relative_path();
  // In a container whose own group is mounted there, `group` may be a path that exists only outside of it.
  std::error_code error;
  if (!fs::is_directory(folder, error)) folder = mount;
  std::size_t left = std::numeric_limits<std::size_t>::max();
  for (;; folder = folder.parent_path()) {
    const auto limit = number_in(folder / files.limit);
    const auto usage = number_in(folder / files.usage);
    if (limit && usage) {
      const std::size_t droppable = value_of(files.droppable, folder / "memory.stat").value_or(0);
      const std::size_t kept = *usage - std::min(*usage, droppable);
      left = std::min(left, *limit - std::min(*limit, kept));
    }
    if (folder == mount || !folder.has_relative_path()) return left;
  }
}

}  // namespace

MemoryLeft memory_left(const fs::path& root) {
  const std::size_t everything = std::numeric_limits<std::size_t>::max();
  MemoryLeft left{everything, "this machine"};
  if (const auto kibibytes = value_of("MemAvailable:", root / "proc/meminfo")) left.bytes = *kibibytes * 1024;
  // Lines are "HIERARCHY:CONTROLLERS:GROUP"; for v2 CONTROLLERS is empty.
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = format(",{},", line.substr(first + 1, second - first - 1));
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(",memory,") == std::string::npos) continue;
    const std::size_t bytes = left_in_group(unified ? second_version : first_version, root, line.substr(second + 1));
    if (bytes < left.bytes) left = {bytes, "this process's control group"};
  }
  return left;
}

}  // namespace tandem
