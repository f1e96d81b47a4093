// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tandem::cuda {

/// How many of a machine's GPUs CUDA shows where CUDA_VISIBLE_DEVICES is `list`; `uuids` are theirs, "GPU-…" each. None
/// where only CUDA can say: parts of GPUs are named (MIG), or something that is neither a plain number nor a UUID.
[[nodiscard]] std::optional<int> count_listed(std::string_view list, std::span<const std::string> uuids);

}  // namespace tandem::cuda
