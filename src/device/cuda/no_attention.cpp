// SPDX-License-Identifier: Apache-2.0
// In place of cuda_attention.cpp, where CMake has not found what that needs.
#include "tandem/base/error.hpp"

#include "device/attention_check.hpp"
#include "device/cuda/cuda_attention.hpp"

namespace tandem::cuda {

const std::string& why_no_attention() {
  static const std::string why = "built without cudnn-frontend (" TANDEM_WHY_NO_CUDNN ")";
  return why;
}

std::unique_ptr<Attention> make_attention(std::shared_ptr<const Context> /*context*/, const AttentionSpec& spec) {
  check_attention(spec);
  throw Unsupported("no attention on CUDA: " + why_no_attention());
}

}  // namespace tandem::cuda
