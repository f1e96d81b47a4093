// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tandem::cuda {

/// How many of the machine's GPUs, whose UUIDs ("GPU-…") are `uuids`, CUDA shows if CUDA_VISIBLE_DEVICES is `list`.
/// Empty if only CUDA can tell: the list has MIG instances, or a word that is neither a plain number nor a UUID.
[[nodiscard]] std::optional<int> count_listed(std::string_view list, std::span<const std::string> uuids);

}  // namespace tandem::cuda
