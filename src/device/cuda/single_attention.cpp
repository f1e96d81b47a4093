// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/single_attention.hpp"

#include <utility>

#include "device/attention_check.hpp"
#include "device/cuda/check.hpp"
#include "device/cuda/kernels/single_attention.hpp"
#include "device/cuda/native_stream.hpp"

namespace tandem::cuda {

SingleAttention::SingleAttention(std::shared_ptr<const Context> context, const AttentionSpec& spec)
    : Attention(spec), context_(std::move(context)) {}

void SingleAttention::forward(StreamRef stream, const AttentionOperands& operands) {
  if (!check_forward(spec(), operands)) return;
  const CurrentContext current(*context_);
  check(launch_single_forward(spec(), operands, native(stream)), "attention to a single key");
}

void SingleAttention::backward(StreamRef stream, const AttentionGradientOperands& operands) {
  if (!check_backward(spec(), operands)) return;
  const CurrentContext current(*context_);
  check(launch_single_backward(spec(), operands, native(stream)), "gradients of attention to a single key");
}

}  // namespace tandem::cuda
