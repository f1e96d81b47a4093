// SPDX-License-Identifier: Apache-2.0
#include "fault/leftovers.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

namespace tandem::fault {
namespace {

using namespace std::chrono_literals;

bool is_mapped_by_somebody(const std::string& path) {
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    std::ifstream maps(process.path() / "maps");  // not a process, or one that has ended: nothing to read
    for (std::string line; std::getline(maps, line);) {
      if (line.ends_with(path)) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::string> sockets_named(const std::string& begin) {
  std::vector<std::string> found;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    if (line.find(begin) != std::string::npos) found.push_back(line);
  }
  return found;
}

std::set<std::string> names_in_shared_memory() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) names.insert(entry.path());
  return names;
}

std::set<std::string> left_in_shared_memory(const std::set<std::string>& before) {
  std::set<std::string> left;
  for (int attempt = 0; attempt < 20; ++attempt) {
    left = names_in_shared_memory();
    std::erase_if(left, [&](const std::string& path) { return before.contains(path) || is_mapped_by_somebody(path); });
    if (left.empty()) break;
    std::this_thread::sleep_for(50ms);  // it may not be mapped yet, or be about to be removed
  }
  return left;
}

}  // namespace tandem::fault
