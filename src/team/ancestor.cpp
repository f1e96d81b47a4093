// SPDX-License-Identifier: Apache-2.0
#include "team/ancestor.hpp"

#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <sys/types.h>
#include <unistd.h>
#include <vector>

#include "base/format.hpp"

namespace tandem {
namespace {

struct Process {
  std::string program;
  pid_t parent = 0;
  std::string start_time;
};

/// Parses "PID (PROGRAM) STATE PARENT ...", where PROGRAM may contain any character, parentheses included.
std::optional<Process> look_at(pid_t pid) {
  std::ifstream file(format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const std::size_t begin = line.find('(');
  const std::size_t end = line.rfind(')');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return std::nullopt;
  std::istringstream rest(line.substr(end + 1));
  const std::vector<std::string> fields{std::istream_iterator<std::string>(rest), {}};
  constexpr std::size_t parent = 1;
  constexpr std::size_t start_time = 19;
  if (fields.size() <= start_time) return std::nullopt;
  return Process{line.substr(begin + 1, end - begin - 1), std::stoi(fields[parent]), fields[start_time]};
}

}  // namespace

std::string ancestor_running(std::string_view program) {
  for (pid_t pid = ::getppid(); pid > 0;) {
    const auto process = look_at(pid);
    if (!process) break;
    if (process->program == program) return format("{}.{}.{}", program, pid, process->start_time);
    pid = process->parent;
  }
  return {};
}

}  // namespace tandem
