// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/device/gemm.hpp"

namespace tandem::cuda {

/// GELU and its derivative, in fp32 (GELU also in fp64, for fp64 sums), without cancellation for negative x: Φ is
/// computed with erfc, and the tanh form as x·σ(2u), which is the same function.
inline constexpr float sqrt_half = 0.70710678118654752F;
inline constexpr float inverse_sqrt_two_pi = 0.39894228040143268F;
inline constexpr float sqrt_two_over_pi = 0.79788456080286536F;
inline constexpr float gelu_cubic = 0.044715F;

__device__ inline float normal_cdf(float x) { return 0.5F * erfcf(-x * sqrt_half); }
__device__ inline float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }
__device__ inline float gelu_argument(float x) { return sqrt_two_over_pi * x * (1.0F + gelu_cubic * x * x); }

__device__ inline float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::gelu_erf: return x * normal_cdf(x);
    case Activation::gelu_tanh: return x * sigmoid(2.0F * gelu_argument(x));
    case Activation::none: break;
  }
  return x;
}

__device__ inline double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::gelu_erf: return x * 0.5 * erfc(-x * 0.70710678118654752440);
    case Activation::gelu_tanh: {
      const double u = 0.79788456080286535588 * x * (1.0 + 0.044715 * x * x);
      return x / (1.0 + exp(-2.0 * u));
    }
    case Activation::none: break;
  }
  return x;
}

__device__ inline float activate_gradient(Activation activation, float x) {
  // Beyond ±20 both derivatives round to 0 or 1, and x² below could overflow. A NaN fails the test and propagates.
  if (activation != Activation::none && fabsf(x) > 20.0F) return x > 0.0F ? 1.0F : 0.0F;
  switch (activation) {
    case Activation::gelu_erf: return normal_cdf(x) + x * inverse_sqrt_two_pi * expf(-0.5F * x * x);
    case Activation::gelu_tanh: {
      const float u = 2.0F * gelu_argument(x);
      const float slope = 2.0F * sqrt_two_over_pi * (1.0F + 3.0F * gelu_cubic * x * x);
      return sigmoid(u) + x * sigmoid(u) * sigmoid(-u) * slope;
    }
    case Activation::none: break;
  }
  return 1.0F;
}

}  // namespace tandem::cuda
