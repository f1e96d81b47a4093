// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/device/gemm.hpp"
#include "tandem/linear/linear_spec.hpp"

namespace tandem {

/// y = x·Wᵀ as one rank's GEMM: rows are tokens.
[[nodiscard]] inline GemmSpec local_gemm(const LinearSpec& spec) {
  return {.m = spec.m,
          .n = spec.n,
          .k = spec.k,
          .transpose_a = spec.x_layout == Layout::transposed,
          .transpose_b = spec.weight_layout == Layout::normal,
          .dtype = spec.dtype,
          .out_dtype = spec.dtype_of_y(),
          .b_dtype = spec.dtype_of_weight(),
          .scaling = spec.scaling,
          .fast_accum = spec.fast_accum,
          .tf32 = spec.tf32,
          .bias = spec.bias,
          .activation = spec.activation,
          .auxiliary = spec.auxiliary,
          .alpha = spec.alpha,
          .beta = spec.beta};
}

/// `spec`, but leaving this many SMs to concurrent kernels.
[[nodiscard]] inline GemmSpec leaving(int sms, GemmSpec spec) {
  spec.leave_sms = sms;
  return spec;
}

/// dW = dyᵀ·x as one rank's GEMM, which sums over the tokens.
[[nodiscard]] inline GemmSpec local_gradient_gemm(const LinearSpec& spec) {
  return {.m = spec.n,
          .n = spec.k,
          .k = spec.m,
          .transpose_a = true,
          .dtype = spec.dtype,
          .out_dtype = spec.gradient_dtype,
          .tf32 = spec.tf32,
          .alpha = spec.alpha,
          .beta = spec.beta};
}

/// local_gradient_gemm for a part of the tokens: its sum is not rounded yet.
[[nodiscard]] inline GemmSpec partial_gradient_gemm(const LinearSpec& spec) {
  GemmSpec partial = local_gradient_gemm(spec);
  partial.out_dtype = f32;
  return partial;
}

}  // namespace tandem
