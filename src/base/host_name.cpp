// SPDX-License-Identifier: Apache-2.0
#include "base/host_name.hpp"

#include <array>
#include <unistd.h>

namespace tandem {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace tandem
