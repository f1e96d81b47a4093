// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

namespace tandem {

inline constexpr double sqrt_half = 0.70710678118654752440;
inline constexpr double inverse_sqrt_two_pi = 0.39894228040143267794;
inline constexpr double sqrt_two_over_pi = 0.79788456080286535588;
inline constexpr double gelu_cubic = 0.044715;

/// x·Φ(x) and its usual approximation, and their derivatives, in the precision of T.
template <typename T> T gelu_erf(T x) noexcept { return T(0.5) * x * std::erfc(-x * T(sqrt_half)); }
template <typename T> T gelu_erf_grad(T x) noexcept {
  return T(0.5) * std::erfc(-x * T(sqrt_half)) + x * T(inverse_sqrt_two_pi) * std::exp(T(-0.5) * x * x);
}
// (1 + tanh(u)) / 2 loses all its digits for negative u. As 1 / (1 + exp(-2u)) it keeps them, and so does its complement, both from
// one exponential that cannot overflow.
template <typename T>
struct Gate {
  T open;     // 1 / (1 + exp(-2u))
  T product;  // open · (1 - open)
};
template <typename T>
Gate<T> gelu_tanh_gate(T x) noexcept {
  const T u = T(sqrt_two_over_pi) * (x + T(gelu_cubic) * x * x * x);
  const T e = std::exp(T(-2) * std::abs(u));
  const T r = T(1) / (T(1) + e);
  return {(u < T(0) ? e : T(1)) * r, e * r * r};
}
template <typename T>
T gelu_tanh(T x) noexcept {
  return x * gelu_tanh_gate(x).open;
}
template <typename T>
T gelu_tanh_grad(T x) noexcept {
  const Gate<T> gate = gelu_tanh_gate(x);
  const T slope = T(2) * T(sqrt_two_over_pi) * (T(1) + T(3) * T(gelu_cubic) * x * x);
  return gate.open + x * gate.product * slope;
}

}  // namespace tandem
