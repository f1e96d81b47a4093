// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "tandem/base/concepts.hpp"
#include "tandem/base/export.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/collective/plan.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/sharded/sharded_spec.hpp"  // IWYU pragma: export
#include "tandem/team/team.hpp"

namespace tandem {

/// A model's parameters, of which each rank keeps a shard: fully sharded data parallelism, as PyTorch's FSDP and
/// DeepSpeed's ZeRO-3 do it. A step uses its groups of parameters in a fixed order. While one is in use, the next ones
/// are gathered, and the gradients of the last ones are summed, beside the computation that the program queues:
///
///   for (int layer = 0; layer < layers; ++layer) {          // forward
///     const auto w = parameters.unshard(layer, stream);     // whole parameters
///     forward(w, …, stream);
///     parameters.reshard(layer, stream);                    // their memory may be used for another layer
///   }
///   for (int layer = layers - 1; layer >= 0; --layer) {     // backward
///     const auto w = parameters.unshard(layer, stream);
///     const auto dw = parameters.gradients(layer, stream);  // memory for this rank's gradients
///     backward(w, dw, …, stream);
///     parameters.reshard(layer, stream);
///     parameters.reduce_gradients(layer, stream);           // sums them over the ranks
///   }
///   parameters.finish(stream);                              // all sums are there
///   optimize(parameters.all_shards(), parameters.all_gradients(), stream);
///
/// A group is one range of elements: its parameters one behind the other, each aligned to 64 elements, the range cut
/// into a part of equal size for each rank. So a parameter may be split in the middle of a row, and `pieces` says what
/// a shard has. Elements between parameters are 0, also in gradients.
///
/// Gathers push shards into the peers' buffers, on CUDA by copy engines, in rank-rotated order. Gradients are pushed,
/// too, into memory of the rank that sums them, in rank order and in f32: their data crosses by copy engines, and
/// kernels sum it. On the host without an emulated link, gradients are reduce-scattered as ReduceScatter does it by
/// default. Buffers are made once and take turns: their size depends on the largest group, not on the number of groups.
/// (f32 shards of 16-bit parameters also have a rounded copy.) Steps that begin behind `finish` get the same addresses
/// in the same uses.
///
/// Every member of the team calls what follows in the same order, but for the local calls; nothing waits on the host.
/// Calls are asynchronous and stream-ordered; a call on another stream than the call before starts behind that one.
/// What a call refuses (InvalidArgument, before anything is queued) leaves the step as it was. Up to three one-block
/// kernels of the plan may wait for peers at once, on its own streams. Beside plans of other teams, queue all calls in
/// the same order on every rank (see Plan).
///
/// A step may be captured into a graph, but only as a whole, from its first `unshard` to its `finish`; a step that
/// began outside of the capture is refused in it. Launch graphs between steps, after `finish`.
class TANDEM_API ShardedParameters final : public Plan {
 public:
  /// Collective; exchanges a description of each group. Shards and gradients are 0. Throws InvalidArgument for a spec
  /// or options that are invalid or differ between ranks (the error names two ranks, and what differs), Unsupported for
  /// another dtype or more than 64 ranks, all before anything is allocated; then OutOfMemory, DeviceError, Timeout,
  /// PeerLost or Aborted.
  ShardedParameters(const Team& team, const ShardedSpec& spec, const ShardedOptions& options = {});

  // Local; views are valid as long as this.

  [[nodiscard]] int groups() const;
  /// This rank's part of a group, [elements] of the shards' dtype: what an optimizer updates. Write it in stream order
  /// after `finish` and before the next `unshard`.
  [[nodiscard]] TensorView shard(int group) const;
  /// The gradient of `shard`: [elements] of f32. Complete after `finish`, until the group's next `reduce_gradients`.
  [[nodiscard]] TensorView gradient(int group) const;
  /// The shards and gradients of all groups, one behind the other: an optimizer may update them at once.
  [[nodiscard]] TensorView all_shards() const;
  [[nodiscard]] TensorView all_gradients() const;
  /// What `shard`, and `gradient`, of this group consist of, in order.
  [[nodiscard]] std::span<const ParameterPiece> pieces(int group) const;
  /// Copies what this rank has of a parameter out of `whole`, which has the parameter's sizes and is f32 or of the
  /// spec's dtype, into the shard, rounded if need be. Stream-ordered, where the shard may be written.
  void load(int group, int parameter, const TensorView& whole, StreamRef stream);

  // A step. Throw the team's error if it has failed.

  /// The group's parameters, whole, in the order of the spec, dense: to be read by work queued on `stream` until
  /// `reshard`. It must be the next in the order, and the group before must have been resharded.
  [[nodiscard]] std::span<const TensorView> unshard(int group, StreamRef stream);
  /// Ends the use of the group: work queued on `stream` until now was the last to read it. Begins the next gather, into
  /// the memory of a group that is not needed soon: with 2 buffers, of the group that comes after the next.
  void reshard(int group, StreamRef stream);
  /// Memory for this rank's gradients of the group's parameters, in the order of the spec, of the gradients' dtype: to
  /// be written by work queued on `stream` until `reduce_gradients`. What it holds before is undefined. One group at a
  /// time.
  [[nodiscard]] std::span<const TensorView> gradients(int group, StreamRef stream);
  /// Sums them over all ranks, behind the work that is queued on `stream` until now, into the shards' gradients. Throws
  /// InvalidArgument if the group has a gradient of this step already, and beta is 0, which would discard that.
  void reduce_gradients(int group, StreamRef stream, GradientScales scales = {});
  /// Work queued on `stream` from now on sees all gradients, and may write shards. Gathered groups are discarded: the
  /// next `unshard` must be of the order's first group, even if the step ended in the middle of the order. Steps that
  /// leave the shards as they are, as for gradients of several batches, need no `finish` between them.
  void finish(StreamRef stream);

 private:
  class State;
};
static_assert(Owner<ShardedParameters>);

}  // namespace tandem
