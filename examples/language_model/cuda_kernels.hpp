// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "language_model/kernels.hpp"

namespace tandem::language_model {

/// Only if Tandem is built with CUDA.
[[nodiscard]] std::unique_ptr<Kernels> make_cuda_kernels(Device& device);

// The kernels' exceptions, thrown from a source that nvcc does not compile: CUDA 13.0's nvcc does not accept
// std::source_location as a default argument.
[[noreturn]] void refuse_dtype();
[[noreturn]] void refuse_call(const char* what, const char* why);

}  // namespace tandem::language_model
