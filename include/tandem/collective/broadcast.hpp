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

struct BroadcastSpec {
  std::int64_t count = 0;  ///< elements; an upper bound for all runs
  DType dtype = f32;       ///< any
};

/// Every rank gets the root's tensor. The root, a rank of the team, may differ from run to run (but is equal on all
/// ranks).
///
/// Into symmetric tensors, "push": the root writes into all of them, or, for large tensors and three ranks or more, a
/// share into each, which that rank passes on (the scatter and all-gather of van de Geijn's broadcast, but with
/// decreasing share sizes, since the root sends them one after the other); "pull": the others read the root's tensor.
/// Into plain views, "fetch": the others read the root's view in place, if the system allows it (see Collective); or
/// "staged": pieces go through the root's part of the plan's memory, from which the others read them, or ("auto" on
/// CUDA, with three ranks or more) are passed on from rank to rank in that memory as in "direct_kernel". Into either,
/// "mail": the root writes into a mailbox at every other rank, and all ranks signal all others, one letter per step;
/// fastest for the smallest tensors. "one_kernel", on CUDA: the same in one kernel of up to 64 thread blocks (or
/// CollectiveOptions::sms; with 0, copy engines do all copies). "direct_kernel", on CUDA, into symmetric tensors: one
/// kernel, in which the root stores into the only other tensor, or, with three ranks or more, each other rank reads one
/// share from the root and stores it into all tensors but the root's, so that each byte leaves the root once.
class TANDEM_API Broadcast final : public Collective {
 public:
  /// Collective. "auto" chooses an algorithm that fits the tensors: "one_kernel" (CUDA) or "mail" (host) for small
  /// ones; "fetch" for large plain views; for larger symmetric tensors "direct_kernel" (between two ranks, or with
  /// `sms` set, for up to 64 MiB over the root's links), or else "push" where copies cost no cores, and "pull" where
  /// they do, so that all ranks' cores copy.
  Broadcast(const Team& team, const BroadcastSpec& spec, const CollectiveOptions& options = {});

  /// The algorithms, other than "auto", that a plan for runs on such tensors can be asked for.
  [[nodiscard]] static std::span<const std::string_view> algorithms(Tensors tensors) noexcept;

  /// The algorithm that a run of `count` elements uses. Throws InvalidArgument unless `count` is 0 to that of the spec,
  /// and for tensors that the plan does not take.
  [[nodiscard]] std::string_view algorithm(std::int64_t count, Tensors tensors) const;

  /// In place: the root's tensor is read, the others' are written.
  void operator()(const SymmetricTensor& tensor, int root, StreamRef stream);
  void operator()(const TensorView& tensor, int root, StreamRef stream);
  /// `input` is used on the root only. It has as many elements as `out`, and is `out` itself or does not overlap it.
  void operator()(const TensorView& input, const SymmetricTensor& out, int root, StreamRef stream);
  void operator()(const TensorView& input, const TensorView& out, int root, StreamRef stream);

 private:
  class State;
};
static_assert(Owner<Broadcast>);

/// Runs the plan that `team` caches for this dtype and size class; the first call for each creates that plan, which is
/// collective. A plan serves counts up to the next power of two, at least 65536, and allocates memory for that many.
/// Throws InvalidArgument if the plan would have to be created while `stream` is being captured.
TANDEM_API void broadcast(const Team& team, const TensorView& tensor, int root, StreamRef stream);
TANDEM_API void broadcast(const Team& team, const TensorView& input, const TensorView& out, int root, StreamRef stream);
TANDEM_API void broadcast(const Team& team, const SymmetricTensor& tensor, int root, StreamRef stream);
TANDEM_API void broadcast(const Team& team, const TensorView& input, const SymmetricTensor& out, int root,
                          StreamRef stream);

}  // namespace tandem
