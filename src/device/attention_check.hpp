// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tandem/device/attention.hpp"

namespace tandem {

/// "i - 99 to i + 0", of keys that query i sees; "any" without a bound.
[[nodiscard]] std::string text_of(const AttentionBand& band);

/// Throws InvalidArgument for a spec that is invalid on every device.
void check_attention(const AttentionSpec& spec);

// Throw what Attention's runs throw, and InvalidArgument for a merge of negative sizes, or without what it needs. False
// if there is nothing to do.
[[nodiscard]] bool check_forward(const AttentionSpec& spec, const AttentionOperands& operands);
[[nodiscard]] bool check_backward(const AttentionSpec& spec, const AttentionGradientOperands& operands);
[[nodiscard]] bool check_merge(const AttentionMerge& merge);

}  // namespace tandem
