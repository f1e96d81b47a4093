// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "tandem/device/attention.hpp"

#include "device/cuda/context.hpp"

namespace tandem::cuda {

/// Why there is no attention by cuDNN: Tandem was built without cudnn-frontend, or the library cannot be loaded. Empty
/// if there is.
[[nodiscard]] const std::string& why_no_attention();

/// Attention by cuDNN, of f16 and bf16. The plan runs each of its graphs once, on temporary memory as large as the
/// largest operand, so that no run loads a kernel (see CudaGemm). All operands of a run must be 16-byte aligned, except
/// lse, which must be 4-byte aligned. Throws InvalidArgument, Unsupported with what cuDNN says, OutOfMemory or
/// DeviceError.
[[nodiscard]] std::unique_ptr<Attention> make_attention(std::shared_ptr<const Context> context,
                                                        const AttentionSpec& spec);

}  // namespace tandem::cuda
