// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
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

struct ReduceScatterSpec {
  std::int64_t count = 0;  ///< elements of one rank's full shard; an upper bound for all runs
  DType dtype = f32;       ///< of the inputs: f32, f16, bf16, f64, i32 or i64
  /// Of the sums, and so of the shard: `dtype` (nullopt), or f32 for f16 and bf16, which leaves them unrounded. Then
  /// no run is in place, and the algorithms are "direct", "staged", "fetch" and "push".
  std::optional<DType> out_dtype{};
};

/// Every rank gets its shard of the sum of all ranks' inputs. The input is split by rows of its first dimension:
/// ceil(rows / ranks) rows per rank; the last ranks have fewer or none (shard_of). Sums are computed in rank order, in
/// fp32 or wider, and rounded once.
///
/// From a symmetric tensor, "direct": one reduction reads all ranks' tensors. From a plain view, "fetch": each rank
/// reads its peers' inputs in place, if the system allows it (see Collective); or "staged": the input is staged in
/// pieces in the plan's own memory, where the reduction reads it. From either, "mail": each rank writes each peer's
/// part into a mailbox there; fastest for the smallest parts. "one_kernel", on CUDA: the same in one kernel of up to 64
/// thread blocks (or CollectiveOptions::sms). "direct_kernel", on CUDA, from symmetric tensors: "direct" in one kernel,
/// synchronization included. "push", from either, only if asked for: each rank copies each peer's part into the plan's
/// memory there, in pieces, and sums what it receives; where copies leave computation alone (on CUDA unless
/// CollectiveOptions::sms is below 4), while the next piece is copied. On CUDA copy engines move the data; besides the
/// sums only one-block kernels, which wait and signal, take SMs: use this beside GEMMs that leave none free.
class TANDEM_API ReduceScatter final : public Collective {
 public:
  /// Collective. "auto" chooses an algorithm that fits the tensors: "fetch" for large plain views, and a kernel (CUDA)
  /// or "mail" (host) for small shards; on the host also "staged" for small shards of symmetric tensors.
  ReduceScatter(const Team& team, const ReduceScatterSpec& spec, const CollectiveOptions& options = {});

  /// The algorithms, other than "auto", that a plan for runs on such tensors can be asked for.
  [[nodiscard]] static std::span<const std::string_view> algorithms(Tensors tensors) noexcept;

  /// The algorithm that a run with shards of up to `count` elements uses. Throws InvalidArgument unless `count` is 0 to
  /// that of the spec, and for tensors that the plan does not take.
  [[nodiscard]] std::string_view algorithm(std::int64_t count, Tensors tensors) const;

  /// In place: the sum of this rank's shard overwrites that shard in `input`; the rest of `input` is unchanged. Throws
  /// InvalidArgument if the sums have another dtype than the input.
  void operator()(const SymmetricTensor& input, StreamRef stream);
  /// `shard` has as many elements as this rank's part of `input`; it is exactly that part or does not overlap `input`.
  void operator()(const SymmetricTensor& input, const TensorView& shard, StreamRef stream);
  void operator()(const TensorView& input, const TensorView& shard, StreamRef stream);

 private:
  class State;
};
static_assert(Owner<ReduceScatter>);

/// Runs the plan that `team` caches for this dtype and size class; the first call for each creates that plan, which is
/// collective. A plan serves counts up to the next power of two, at least 65536, and allocates memory for that many.
/// Throws InvalidArgument if the plan would have to be created while `stream` is being captured.
TANDEM_API void reduce_scatter(const Team& team, const TensorView& input, const TensorView& shard, StreamRef stream);
TANDEM_API void reduce_scatter(const Team& team, const SymmetricTensor& input, const TensorView& shard,
                               StreamRef stream);
TANDEM_API void reduce_scatter(const Team& team, const SymmetricTensor& input, StreamRef stream);

}  // namespace tandem
