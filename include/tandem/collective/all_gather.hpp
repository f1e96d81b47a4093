// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tandem/base/concepts.hpp"
#include "tandem/base/dtype.hpp"
#include "tandem/base/export.hpp"
#include "tandem/base/tensor_view.hpp"
#include "tandem/collective/collective.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/memory/symmetric_tensor.hpp"
#include "tandem/team/team.hpp"

namespace tandem {

struct AllGatherSpec {
  std::int64_t count = 0;  ///< elements of one rank's full shard; an upper bound for all runs
  DType dtype = f32;       ///< any
};

/// Every rank gets every rank's shard, concatenated in rank order. The gathered tensor is split by rows of its first
/// dimension: ceil(rows / ranks) rows per rank; the last ranks have fewer or none (shard_of).
///
/// Into a symmetric tensor, "push": each rank writes its shard directly into its peers' tensors, in rank-rotated order,
/// and signals each peer; nothing is staged, and on CUDA copy engines move all data, so that SMs run only small signal
/// and wait kernels. Into a plain view, "fetch": each rank reads its peers' shards in place, if the system allows it
/// (see Collective); or "staged": shards are staged in pieces in the plan's own memory, from which the peers copy them.
/// Into either, "mail": each rank writes its shard into a mailbox at every peer, one letter per step; fastest for the
/// smallest shards. "one_kernel", on CUDA: the same in one kernel of up to 64 thread blocks (or CollectiveOptions::sms;
/// with 0, copy engines do all copies). "direct_kernel", on CUDA, into symmetric tensors: one kernel that stores into
/// all of them.
class TANDEM_API AllGather final : public Collective {
 public:
  /// Collective. "auto" chooses an algorithm that fits the tensors: "fetch" for large plain views, and a kernel (CUDA)
  /// or "mail" (host) for small shards; on the host also "staged" for small shards of symmetric tensors.
  AllGather(const Team& team, const AllGatherSpec& spec, const CollectiveOptions& options = {});

  /// The algorithms, other than "auto", that a plan for runs on such tensors can be asked for.
  [[nodiscard]] static std::span<const std::string_view> algorithms(Tensors tensors) noexcept;

  /// The algorithm that a run with shards of up to `count` elements uses. Throws InvalidArgument unless `count` is 0 to
  /// that of the spec, and for tensors that the plan does not take.
  [[nodiscard]] std::string_view algorithm(std::int64_t count, Tensors tensors) const;

  /// In place: this rank's shard is already at its position in `gathered`.
  void operator()(const SymmetricTensor& gathered, StreamRef stream);
  /// `shard` has as many elements as this rank's part of `gathered`. It is either exactly that part (in place) or does
  /// not overlap `gathered`.
  void operator()(const TensorView& shard, const SymmetricTensor& gathered, StreamRef stream);
  void operator()(const TensorView& shard, const TensorView& gathered, StreamRef stream);

  // A run into a symmetric tensor in three steps, for consumers that start with the first shard to arrive: `start`
  // once, `wait_shard` for any ranks, at most once each, on any stream, then `finish`, which waits for the others.
  // Always uses pushes, whatever `algorithm` returns; a plan made for another explicit algorithm throws
  // InvalidArgument. Until `finish` the plan accepts no other run; a `start` in a capture that was dropped is
  // forgotten. If captured, all steps must be in one graph.

  /// From this point in `stream` order, peers may write into `gathered`.
  void start(const SymmetricTensor& gathered, StreamRef stream);
  void start(const TensorView& shard, const SymmetricTensor& gathered, StreamRef stream);
  /// Work queued on `stream` after this call sees the shard of `rank`.
  void wait_shard(int rank, StreamRef stream);
  /// Work queued on `stream` after this sees all shards except those that `wait_shard` waited for on other streams, and
  /// may overwrite what was passed to `start`. The next run begins after this point; the caller must also order it
  /// after readers on those other streams.
  void finish(StreamRef stream);

 private:
  class State;
};
static_assert(Owner<AllGather>);

/// Runs the plan that `team` caches for this dtype and size class; the first call for each creates that plan, which is
/// collective. A plan serves counts up to the next power of two, at least 65536, and allocates memory for that many.
/// Throws InvalidArgument if the plan would have to be created while `stream` is being captured.
TANDEM_API void all_gather(const Team& team, const TensorView& shard, const TensorView& gathered, StreamRef stream);
TANDEM_API void all_gather(const Team& team, const TensorView& shard, const SymmetricTensor& gathered,
                           StreamRef stream);
TANDEM_API void all_gather(const Team& team, const SymmetricTensor& gathered, StreamRef stream);

}  // namespace tandem
