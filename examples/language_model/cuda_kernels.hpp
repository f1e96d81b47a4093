// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "language_model/kernels.hpp"

namespace tandem::language_model {

/// Only where Tandem is built with CUDA.
[[nodiscard]] std::unique_ptr<Kernels> make_cuda_kernels(Device& device);

}  // namespace tandem::language_model
