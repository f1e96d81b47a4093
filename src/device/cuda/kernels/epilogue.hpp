// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tandem/device/gemm.hpp"

namespace tandem::cuda {

/// What is applied to a sum before it is stored (see Reduction).
struct Epilogue {
  const void* bias;  ///< of the stored type; null: none
  std::int64_t columns;
  Activation activation;
};

}  // namespace tandem::cuda
