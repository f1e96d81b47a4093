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
template <typename T>
T gelu_erf(T x) noexcept {
  return T(0.5) * x * std::erfc(-x * T(sqrt_half));
}
template <typename T>
T gelu_erf_grad(T x) noexcept {
  return T(0.5) * std::erfc(-x * T(sqrt_half)) + x * T(inverse_sqrt_two_pi) * std::exp(T(-0.5) * x * x);
}
template <typename T>
T gelu_tanh(T x) noexcept {
  const T t = std::tanh(T(sqrt_two_over_pi) * (x + T(gelu_cubic) * x * x * x));
  return T(0.5) * x * (T(1) + t);
}
template <typename T>
T gelu_tanh_grad(T x) noexcept {
  const T t = std::tanh(T(sqrt_two_over_pi) * (x + T(gelu_cubic) * x * x * x));
  const T inner = T(sqrt_two_over_pi) * (T(1) + T(3) * T(gelu_cubic) * x * x);
  return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * inner;
}

}  // namespace tandem
