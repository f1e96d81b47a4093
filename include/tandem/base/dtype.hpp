// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tandem/base/export.hpp"

namespace tandem {

/// Element types. Data of all of them can be moved; each operation's header says which ones it can do arithmetic on.
enum class DType : std::uint8_t { f32, f16, bf16, f64, i32, i64, u8, f8e4m3, f8e5m2 };

inline constexpr DType f32 = DType::f32;
inline constexpr DType f16 = DType::f16;
inline constexpr DType bf16 = DType::bf16;
inline constexpr DType f64 = DType::f64;
inline constexpr DType i32 = DType::i32;
inline constexpr DType i64 = DType::i64;
inline constexpr DType u8 = DType::u8;
inline constexpr DType f8e4m3 = DType::f8e4m3;
inline constexpr DType f8e5m2 = DType::f8e5m2;

/// Bytes of one element.
[[nodiscard]] constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::u8:
    case DType::f8e4m3:
    case DType::f8e5m2: return 1;
  }
  return 0;
}

/// Whether a dtype is a floating-point one of 8 bits.
[[nodiscard]] constexpr bool is_float8(DType dtype) noexcept { return dtype == f8e4m3 || dtype == f8e5m2; }

/// The unit roundoff of a floating-point type (half the distance from 1 to the next larger value); 0 for integers.
[[nodiscard]] constexpr double epsilon(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64: return 0x1p-53;
    case DType::f32: return 0x1p-24;
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
    case DType::f8e4m3: return 0x1p-4;
    case DType::f8e5m2: return 0x1p-3;
    case DType::i32:
    case DType::i64:
    case DType::u8: return 0;
  }
  return 0;
}

/// "f32", "bf16", …
[[nodiscard]] TANDEM_API std::string_view name(DType dtype) noexcept;

/// The inverse of `name`; also takes PyTorch's and NCCL's names (float32, bfloat16, half, …).
/// Throws InvalidArgument, listing the known names, for any other text.
[[nodiscard]] TANDEM_API DType parse_dtype(std::string_view text);

}  // namespace tandem
