// SPDX-License-Identifier: Apache-2.0
#include "tandem/attention/context_parallel_attention.hpp"

#include <memory>

#include "attention/context_parallel_attention/state.hpp"

namespace tandem {

ContextParallelAttention::ContextParallelAttention(const Team& team, const ContextParallelSpec& spec)
    : Plan(std::make_unique<State>(team, spec)) {}

void ContextParallelAttention::forward(const TensorView& q, const TensorView& k, const TensorView& v,
                                       const TensorView& out, const TensorView& lse, StreamRef stream) {
  state<State>().forward({q, k, v, out, lse}, stream);
}

void ContextParallelAttention::backward(const TensorView& grad_out, const TensorView& q, const TensorView& k,
                                        const TensorView& v, const TensorView& out, const TensorView& lse,
                                        const TensorView& dq, const TensorView& dk, const TensorView& dv,
                                        StreamRef stream) {
  state<State>().backward({q, k, v, out, lse}, {grad_out, dq, dk, dv}, stream);
}

}  // namespace tandem
