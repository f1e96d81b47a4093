// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace tandem::cuda {

/// How many of a machine's GPUs CUDA shows where CUDA_VISIBLE_DEVICES is `list`. None where only CUDA can say: GPUs are
/// named by UUIDs, or not by plain numbers.
[[nodiscard]] std::optional<int> count_listed(std::string_view list, int gpus);

}  // namespace tandem::cuda
