// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>

#include "tandem/base/scalar.hpp"

namespace tandem::language_model {

/// The element of dtype f32, f16 or bf16 at `memory`.
[[nodiscard]] inline float load_scalar(const std::byte* memory, DType dtype) {
  const auto load = [memory](auto value) {
    std::memcpy(&value, memory, sizeof(value));
    return static_cast<float>(value);
  };
  if (dtype == f16) return load(Half{});
  if (dtype == bf16) return load(BFloat16{});
  return load(0.0F);
}

}  // namespace tandem::language_model
