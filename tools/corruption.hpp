// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "tandem/base/dtype.hpp"

namespace tandem::tools {

/// Whether this rank is to take a right result for a wrong one: rank 0 with TANDEM_TEST_CORRUPT=1, by which tests see
/// that commands tell it.
[[nodiscard]] bool corrupts(int rank);
/// Makes the first element another one.
void corrupt(std::span<std::byte> result, DType dtype);

}  // namespace tandem::tools
