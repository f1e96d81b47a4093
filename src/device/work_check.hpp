// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/device/copy.hpp"
#include "tandem/device/reduce.hpp"

namespace tandem {

// What is invalid on every device: negative counts, operands that are missing, numbers that are no value of their enum.
// They throw InvalidArgument before anything is queued.

void check_copy(const Copy& copy);
void check_reduction(const Reduction& reduction);
void check_map(const Map& map);
void check_column_sum(const ColumnSum& sum);

}  // namespace tandem
