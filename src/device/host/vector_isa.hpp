// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "tandem/base/scalar.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Loops are compiled once for each instruction set, and the one to run is chosen at run time. Only the loop itself is
// compiled for the newer set: if a whole file were, the linker could pick its copies of inline functions for the whole
// program, also on CPUs that lack that set.

namespace tandem {

enum class VectorIsa : std::uint8_t { base, avx2 };

[[nodiscard]] inline VectorIsa vector_isa() noexcept {
#if defined(__x86_64__)
  static const VectorIsa isa = [] {
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    return avx2 ? VectorIsa::avx2 : VectorIsa::base;
  }();
  return isa;
#else
  return VectorIsa::base;
#endif
}

[[nodiscard]] inline const char* vector_isa_name() noexcept {
  return vector_isa() == VectorIsa::avx2 ? "AVX2" : "baseline vectors";
}

#if defined(__x86_64__)
template <typename Kernel, typename... Arguments>
[[gnu::target("avx2,fma,f16c"), gnu::noinline]] void run_on_avx2(Arguments... arguments) {
  Kernel::loop(arguments...);
}
#endif

template <typename Kernel, typename... Arguments> [[gnu::noinline]] void run_on_base(Arguments... arguments) {
  Kernel::loop(arguments...);
}

/// Calls Kernel::loop(arguments...), compiled for the best of these instruction sets that this CPU has.
template <typename Kernel, typename... Arguments> void run_vectorised(Arguments... arguments) {
#if defined(__x86_64__)
  if (vector_isa() == VectorIsa::avx2) return run_on_avx2<Kernel, Arguments...>(arguments...);
#endif
  run_on_base<Kernel, Arguments...>(arguments...);
}

#if defined(__x86_64__)
[[gnu::target("avx2,fma,f16c"), gnu::noinline]] inline std::int64_t widen_half_f16c(const Half* from, float* to,
                                                                                    std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
  return i;
}
[[gnu::target("avx2,fma,f16c"), gnu::noinline]] inline std::int64_t narrow_half_f16c(const float* from, Half* to,
                                                                                     std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  return i;
}
#endif

inline void widen_half(const Half* from, float* to, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__x86_64__)
  if (vector_isa() == VectorIsa::avx2) i = widen_half_f16c(from, to, n);
#endif
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

inline void narrow_half(const float* from, Half* to, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__x86_64__)
  if (vector_isa() == VectorIsa::avx2) i = narrow_half_f16c(from, to, n);
#endif
  for (; i < n; ++i) to[i] = Half(from[i]);
}

}  // namespace tandem
