// SPDX-License-Identifier: Apache-2.0
#include "support/socket_names.hpp"

#include <iomanip>
#include <sstream>
#include <unistd.h>

namespace tandem::testing {

std::uint64_t hash_of_job(const std::string& job) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char letter : job) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  return hash;
}

std::string socket_prefix(std::uint64_t job_hash) {
  std::ostringstream name;
  name << "@tandem/" << ::geteuid() << "/" << std::hex << std::setw(16) << std::setfill('0') << job_hash;
  return name.str();
}

}  // namespace tandem::testing
