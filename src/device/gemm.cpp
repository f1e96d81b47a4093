// SPDX-License-Identifier: Apache-2.0
#include "tandem/device/gemm.hpp"

namespace tandem {

const char* name(Activation activation) noexcept {
  switch (activation) {
    case Activation::none: return "none";
    case Activation::gelu_erf: return "gelu_erf";
    case Activation::gelu_tanh: return "gelu_tanh";
  }
  return "?";
}

Gemm::~Gemm() = default;

}  // namespace tandem
