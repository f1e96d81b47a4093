// SPDX-License-Identifier: Apache-2.0
#include "support/processes.hpp"

#include <fstream>
#include <string>

namespace tandem::testing {

char state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  std::getline(file, stat);
  const std::size_t name_end = stat.rfind(") ");  // a name may hold anything
  return name_end == std::string::npos || name_end + 2 >= stat.size() ? '\0' : stat[name_end + 2];
}

}  // namespace tandem::testing
