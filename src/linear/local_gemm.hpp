// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/device/gemm.hpp"
#include "tandem/linear/linear_spec.hpp"

namespace tandem {

/// y = x·Wᵀ as one rank's product: rows are tokens.
[[nodiscard]] inline GemmSpec local_gemm(const LinearSpec& spec) {
  return {.m = spec.m,
          .n = spec.n,
          .k = spec.k,
          .transpose_a = spec.x == Layout::transposed,
          .transpose_b = spec.weight == Layout::normal,
          .dtype = spec.dtype,
          .out_dtype = spec.dtype,
          .bias = spec.bias,
          .activation = spec.activation,
          .auxiliary = spec.auxiliary,
          .alpha = spec.alpha,
          .beta = spec.beta};
}

}  // namespace tandem
