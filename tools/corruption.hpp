// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "tandem/base/dtype.hpp"

namespace tandem::tools {

/// Whether this rank should corrupt a correct result: rank 0 with TANDEM_TEST_CORRUPT=1, which lets tests check that
/// commands report wrong results.
[[nodiscard]] bool corrupts(int rank);
/// Changes the first element.
void corrupt(std::span<std::byte> result, DType dtype);

}  // namespace tandem::tools
