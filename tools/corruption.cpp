// SPDX-License-Identifier: Apache-2.0
#include "tools/corruption.hpp"

#include <cstdlib>
#include <cstring>

namespace tandem::tools {

bool corrupts(int rank) {
  const char* variable = std::getenv("TANDEM_TEST_CORRUPT");
  return rank == 0 && variable != nullptr && std::strcmp(variable, "1") == 0;
}

void corrupt(std::span<std::byte> result, DType dtype) {
  if (!result.empty()) result[size_of(dtype) - 1] ^= std::byte{0x40};
}

}  // namespace tandem::tools
