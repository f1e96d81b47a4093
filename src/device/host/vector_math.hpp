// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace tandem {

// GELU, as x·Φ(x) and as its usual approximation with tanh, and their derivatives. The float versions have no branches
// or calls, so that loops over them are vectorised; their error is a few units in the last place of x. The double
// versions call the C library.

inline constexpr double sqrt_half = 0.70710678118654752440;
inline constexpr double inverse_sqrt_two_pi = 0.39894228040143267794;
inline constexpr double sqrt_two_over_pi = 0.79788456080286535588;
inline constexpr double gelu_cubic = 0.044715;

/// exp(x) for x <= 0, within 2 ulp; 0 below -87, where floats become subnormal.
[[gnu::always_inline]] inline float exp_negative(float x) noexcept {
  constexpr float log2_e = 1.44269504F;
  constexpr float ln2_high = 0.693145752F;  // few enough bits that n · ln2_high is exact
  constexpr float ln2_low = 1.42860677e-6F;
  constexpr float round = 0x1.8p23F;  // adding this rounds to an integer, in the low bits of the sum
  const float shifted = x * log2_e + round;
  const float n = shifted - round;
  const float r = (x - n * ln2_high) - n * ln2_low;
  // Interpolates exp on [-ln 2 / 2, ln 2 / 2] at the Chebyshev nodes, within 3e-9.
  float p = 1.394111890e-03F;
  p = p * r + 8.375134775e-03F;
  p = p * r + 4.166635277e-02F;
  p = p * r + 1.666641541e-01F;
  p = p * r + 5.000000047e-01F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const auto power = (std::bit_cast<std::uint32_t>(shifted) + 127U) << 23;
  return x < -87.0F ? 0.0F : p * std::bit_cast<float>(power);
}
[[gnu::always_inline]] inline double exp_negative(double x) noexcept { return std::exp(x); }

/// Φ(x), the probability that a normal variable is below x, and exp(-x²/2).
template <typename T> struct Normal {
  T below;
  T bell;
};

[[gnu::always_inline]] inline Normal<float> normal(float x) noexcept {
  // erfc(z) = exp(-z²) · s(z) / (1 + 2z), where s is smooth all the way to infinity, as a polynomial in (z - 2) / (z +
  // 2).
  const float a = std::abs(x) * static_cast<float>(sqrt_half);
  const float z = a < 9.3F ? a : 9.3F;
  const float q = (z - 2.0F) / (z + 2.0F);
  // Interpolates s for 0 <= z <= 9.3 at the Chebyshev nodes, within 2e-8.
  float s = -4.294795284e-04F;
  s = s * q - 1.276178454e-03F;
  s = s * q + 1.323564878e-03F;
  s = s * q + 8.671376784e-03F;
  s = s * q - 8.056293959e-03F;
  s = s * q - 5.421529667e-02F;
  s = s * q + 1.640539720e-01F;
  s = s * q - 1.660304080e-01F;
  s = s * q - 9.276390365e-02F;
  s = s * q + 1.276978378e+00F;
  const float bell = exp_negative(-0.5F * x * x);
  const float tail = 0.5F * bell * s / (1.0F + 2.0F * z);
  return {x < 0.0F ? tail : 1.0F - tail, bell};
}
inline Normal<double> normal(double x) noexcept { return {0.5 * std::erfc(-x * sqrt_half), std::exp(-0.5 * x * x)}; }

template <typename T> [[gnu::always_inline]] inline T gelu_erf(T x) noexcept { return x * normal(x).below; }
template <typename T> [[gnu::always_inline]] inline T gelu_erf_grad(T x) noexcept {
  const Normal<T> n = normal(x);
  return n.below + x * T(inverse_sqrt_two_pi) * n.bell;
}

// (1 + tanh(u)) / 2 cancels completely for very negative u. 1 / (1 + exp(-2u)) does not, nor does its complement, and
// both need only one exponential, which cannot overflow.
template <typename T> struct Gate {
  T open;     // 1 / (1 + exp(-2u))
  T product;  // open · (1 - open)
};
template <typename T> [[gnu::always_inline]] inline Gate<T> gelu_tanh_gate(T x) noexcept {
  const T u = T(sqrt_two_over_pi) * (x + T(gelu_cubic) * x * x * x);
  const T e = exp_negative(T(-2) * std::abs(u));
  const T r = T(1) / (T(1) + e);
  return {(u < T(0) ? e : T(1)) * r, e * r * r};
}
template <typename T> [[gnu::always_inline]] inline T gelu_tanh(T x) noexcept { return x * gelu_tanh_gate(x).open; }
template <typename T> [[gnu::always_inline]] inline T gelu_tanh_grad(T x) noexcept {
  const Gate<T> gate = gelu_tanh_gate(x);
  // Beyond this gate.product is 0 and the slope might be infinite: their product would be NaN.
  const T within = x > T(20) ? T(20) : (x < T(-20) ? T(-20) : x);
  const T slope = T(2) * T(sqrt_two_over_pi) * (T(1) + T(3) * T(gelu_cubic) * within * within);
  return gate.open + within * gate.product * slope;
}

}  // namespace tandem
