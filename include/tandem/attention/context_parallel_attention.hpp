// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tandem/attention/context_parallel_spec.hpp"  // IWYU pragma: export
#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/collective/plan.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

/// Attention to a sequence that is too long for one rank: each rank has a part of its tokens (see SequenceSplit), and
/// attends from its own queries to the keys of all ranks. While it attends to one block of keys and values, it fetches
/// the next from the rank that has it: by copy engines on CUDA, from memory of the plan into which every rank copies
/// its own keys and values when a run begins. Two such blocks are in memory at once, whatever the number of ranks, and
/// blocks that no query sees are not fetched. Results are merged in fp32, block by block, by their log-sum-exp. In
/// `backward` each rank computes its share of the gradients of the blocks it fetches, and sends them to the ranks that
/// have those keys, which sum them in fp32, in a fixed order. This is ring attention (Liu et al., arXiv 2310.01889) by
/// one-sided reads instead of a ring, with the zigzag split of Megatron-LM and Llama 3 training.
///
/// Tensors are this rank's, dense, on the team's device, with `n` = token_count(…) tokens in the order of tokens_of:
///   q, dq [n, batch, heads, head_dim]; k, dk [n, batch, kv_heads, head_dim]; v, dv [n, batch, kv_heads, value_dim];
///   out, grad_out [n, batch, heads, value_dim], all of the spec's dtype; lse [batch, heads, n] of f32.
/// They may be any memory of the device; peers reach none of them. On CUDA all but lse begin at multiples of 16 bytes.
/// No result may overlap another tensor.
///
/// Runs are asynchronous and stream-ordered, of all members in the same order, and may be captured into graphs (see
/// Plan). Throw InvalidArgument for other tensors, before anything is queued, and the team's error if it has failed.
class TANDEM_API ContextParallelAttention final : public Plan {
 public:
  /// Collective. Throws InvalidArgument for an invalid spec, or one that differs between ranks, and Unsupported for
  /// what a device cannot compute (see Device::attention), both without failing the team; then OutOfMemory,
  /// DeviceError, Timeout, PeerLost or Aborted.
  ContextParallelAttention(const Team& team, const ContextParallelSpec& spec);

  /// out = attention of q to all ranks' k and v. Keeps `out` and `lse` for `backward`, if that is called.
  void forward(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
               const TensorView& lse, StreamRef stream);
  /// The gradients of this rank's q, k and v, from what `forward` had and returned. Throws InvalidArgument unless the
  /// spec has `gradients`.
  void backward(const TensorView& grad_out, const TensorView& q, const TensorView& k, const TensorView& v,
                const TensorView& out, const TensorView& lse, const TensorView& dq, const TensorView& dk,
                const TensorView& dv, StreamRef stream);

 private:
  class State;
};
static_assert(Owner<ContextParallelAttention>);

}  // namespace tandem
