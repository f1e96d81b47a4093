// SPDX-License-Identifier: Apache-2.0
#include "tandem/base/dtype.hpp"

#include <array>
#include <utility>

#include "tandem/base/error.hpp"

#include "base/dtype_check.hpp"
#include "base/format.hpp"

namespace tandem {
namespace {

// The first entry of a dtype is Tandem's name for it; later ones are what other systems call it.
constexpr std::array<std::pair<std::string_view, DType>, 22> names{{
    {"f32", f32},
    {"float32", f32},
    {"float", f32},
    {"f16", f16},
    {"float16", f16},
    {"half", f16},
    {"bf16", bf16},
    {"bfloat16", bf16},
    {"f64", f64},
    {"float64", f64},
    {"double", f64},
    {"i32", i32},
    {"int32", i32},
    {"i64", i64},
    {"int64", i64},
    {"u8", u8},
    {"uint8", u8},
    {"f8e4m3", f8e4m3},
    {"float8_e4m3fn", f8e4m3},
    {"f8e5m2", f8e5m2},
    {"float8_e5m2", f8e5m2},
    {"int", i32},
}};

constexpr const char* dtype_names = "f32, f16, bf16, f64, i32, i64, u8, f8e4m3, f8e5m2";

}  // namespace

std::string_view name(DType dtype) noexcept {
  for (const auto& [text, value] : names) {
    if (value == dtype) return text;
  }
  return "unknown";
}

DType parse_dtype(std::string_view text) {
  for (const auto& [known, value] : names) {
    if (known == text) return value;
  }
  throw InvalidArgument(format("dtype '{}' is not known; known: {}", std::string(text), dtype_names));
}

DType known_dtype(DType dtype) {
  if (size_of(dtype) != 0) return dtype;
  throw InvalidArgument(format("dtype number {} is not known; known: {}", static_cast<int>(dtype), dtype_names));
}

}  // namespace tandem
