// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "tandem/base/dtype.hpp"

namespace tandem {

/// The bits of the number nearest to a float, ties to even, in a format with this exponent bias and so many bits of
/// mantissa; both without their sign. What is nearer to infinity than to the format's largest number gets the bits that
/// follow that number's, which are infinity's in IEEE's formats.
[[nodiscard]] inline std::uint32_t nearest_bits(std::uint32_t magnitude, std::uint32_t bias,
                                                std::uint32_t mantissa) noexcept {
  const std::uint32_t shift = 23 - mantissa;
  const std::uint32_t offset = (127 - bias) << 23;
  if (magnitude < offset + (1U << 23)) {  // let the float unit do the rounding into a subnormal
    const std::uint32_t spaced_alike = (127 + 24 - bias - mantissa) << 23;
    return std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(spaced_alike)) -
           spaced_alike;
  }
  return (magnitude + (1U << (shift - 1)) - 1 + ((magnitude >> shift) & 1U) - offset) >> shift;
}

/// Storage types of the 16- and 8-bit floating-point dtypes. Conversion to float is exact; conversion from float rounds
/// to nearest, ties to even. What is larger than any number of an 8-bit type becomes the largest one, as in CUDA's
/// types of that name.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) noexcept {
    const auto u = std::bit_cast<std::uint32_t>(value);
    // A NaN with its payload only in the low half would round to infinity: keep it a (quiet) NaN.
    const bool nan = (u & 0x7fffffffU) > 0x7f800000U;
    const std::uint32_t rounded = u + 0x7fffU + ((u >> 16) & 1U);
    bits = static_cast<std::uint16_t>((nan ? (u | 0x00400000U) : rounded) >> 16);
  }
  explicit operator float() const noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

struct Half {
  std::uint16_t bits = 0;

  Half() = default;
  explicit Half(float value) noexcept {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (u >> 16) & 0x8000U;
    const std::uint32_t magnitude = u & 0x7fffffffU;
    std::uint32_t h = 0;
    if (magnitude >= 0x47800000U) {  // 65536 and above, infinity, NaN
      h = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
    } else {
      h = nearest_bits(magnitude, 15, 10);
    }
    bits = static_cast<std::uint16_t>(sign | h);
  }
  explicit operator float() const noexcept {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
    const std::uint32_t shifted = static_cast<std::uint32_t>(bits & 0x7fffU) << 13;
    std::uint32_t u = shifted + 0x38000000U;
    if (shifted >= 0x0f800000U) {
      u = shifted + 0x70000000U;  // infinity and NaN keep their exponent of all ones
    } else if (shifted < 0x00800000U) {
      u = std::bit_cast<std::uint32_t>(std::bit_cast<float>(shifted + 0x38800000U) - 0x1p-14F);
    }
    return std::bit_cast<float>(sign | u);
  }
};

/// Sign, 4 bits of exponent, 3 of mantissa: up to 448, no infinity (OCP's E4M3).
struct Float8E4M3 {
  std::uint8_t bits = 0;

  Float8E4M3() = default;
  explicit Float8E4M3(float value) noexcept {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = u & 0x7fffffffU;
    std::uint32_t narrow = 0;
    if (magnitude >= 0x43e80000U) {  // 464, halfway to what would follow 448, and above; infinity, NaN
      narrow = magnitude > 0x7f800000U ? 0x7fU : 0x7eU;
    } else {
      narrow = nearest_bits(magnitude, 7, 3);
    }
    bits = static_cast<std::uint8_t>(((u >> 24) & 0x80U) | narrow);
  }
  explicit operator float() const noexcept {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80U) << 24;
    const std::uint32_t shifted = static_cast<std::uint32_t>(bits & 0x7fU) << 20;
    std::uint32_t u = shifted + 0x3c000000U;
    if (shifted == 0x07f00000U) {
      u = 0x7fc00000U;
    } else if (shifted < 0x00800000U) {
      u = std::bit_cast<std::uint32_t>(std::bit_cast<float>(shifted + 0x3c800000U) - 0x1p-6F);
    }
    return std::bit_cast<float>(sign | u);
  }
};

/// Sign, 5 bits of exponent, 2 of mantissa: the upper half of a Half, up to 57344 (OCP's E5M2).
struct Float8E5M2 {
  std::uint8_t bits = 0;

  Float8E5M2() = default;
  explicit Float8E5M2(float value) noexcept {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = u & 0x7fffffffU;
    std::uint32_t narrow = 0;
    if (magnitude >= 0x47700000U) {  // 61440, halfway to what would follow 57344, and above; infinity, NaN
      narrow = magnitude > 0x7f800000U ? 0x7eU : 0x7bU;
    } else {
      narrow = nearest_bits(magnitude, 15, 2);
    }
    bits = static_cast<std::uint8_t>(((u >> 24) & 0x80U) | narrow);
  }
  explicit operator float() const noexcept {
    Half half;
    half.bits = static_cast<std::uint16_t>(bits << 8);
    return static_cast<float>(half);
  }
};

/// The C++ type that stores a dtype, for the dtypes that the host does arithmetic on.
template <DType> struct StorageOf;
template <> struct StorageOf<DType::f32> {
  using type = float;
};
template <> struct StorageOf<DType::f16> {
  using type = Half;
};
template <> struct StorageOf<DType::bf16> {
  using type = BFloat16;
};
template <> struct StorageOf<DType::f8e4m3> {
  using type = Float8E4M3;
};
template <> struct StorageOf<DType::f8e5m2> {
  using type = Float8E5M2;
};
template <> struct StorageOf<DType::f64> {
  using type = double;
};
template <> struct StorageOf<DType::i32> {
  using type = std::int32_t;
};
template <> struct StorageOf<DType::i64> {
  using type = std::int64_t;
};
template <> struct StorageOf<DType::u8> {
  using type = std::uint8_t;
};
template <DType dtype> using Storage = typename StorageOf<dtype>::type;

/// The dtype that a C++ type stores: the inverse of Storage.
template <typename T> [[nodiscard]] consteval DType dtype_of() noexcept {
  if constexpr (std::is_same_v<T, float>) {
    return f32;
  } else if constexpr (std::is_same_v<T, Half>) {
    return f16;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return bf16;
  } else if constexpr (std::is_same_v<T, Float8E4M3>) {
    return f8e4m3;
  } else if constexpr (std::is_same_v<T, Float8E5M2>) {
    return f8e5m2;
  } else if constexpr (std::is_same_v<T, double>) {
    return f64;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return i32;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return i64;
  } else {
    static_assert(std::is_same_v<T, std::uint8_t>, "no dtype is stored as this type");
    return u8;
  }
}

static_assert(sizeof(BFloat16) == 2 && sizeof(Half) == 2 && sizeof(Float8E4M3) == 1 && sizeof(Float8E5M2) == 1);

}  // namespace tandem
