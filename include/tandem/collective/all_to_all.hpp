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

struct AllToAllSpec {
  std::int64_t count = 0;  ///< elements from one rank to another; an upper bound for all runs and pairs
  DType dtype = f32;       ///< any
};

/// Rank i sends part j of its input to rank j, where it becomes part i of the output. Parts are stored contiguously in
/// rank order. Without `counts` they are equal: each tensor has ranks · c elements. With `counts`, rank i sends
/// counts[i · ranks + j] elements to rank j: ranks² values, each at least 0, the same on all ranks (compared only with
/// TANDEM_CHECK=runs). Input and output must not overlap: InvalidArgument where an overlap can be detected.
///
/// Into a symmetric tensor, "push": each rank writes its parts directly into its peers' tensors. From a symmetric
/// tensor into a plain view, "pull": each rank reads its parts from its peers' tensors. Between plain views, "fetch":
/// each rank reads its parts in place, if the system allows it (see Collective); or "staged": parts are staged in
/// pieces in the plan's own memory. Between any tensors, "mail": each rank writes its parts into mailboxes at its
/// peers, one letter per step; fastest for the smallest parts. "one_kernel", on CUDA: the same in one kernel of up to
/// 64 thread blocks (or CollectiveOptions::sms; with 0, copy engines do all copies). "direct_kernel", on CUDA, into or
/// out of a symmetric tensor: one kernel that stores into all ranks' tensors, or loads from them.
class TANDEM_API AllToAll final : public Collective {
 public:
  /// Collective. "auto" chooses an algorithm that fits the tensors: "fetch" for large plain views; "mail" (host) or
  /// "one_kernel" (CUDA) if every part is small; with a symmetric tensor, "direct_kernel" for up to 256 MiB per rank
  /// over its links if each part is a multiple of 16 bytes.
  AllToAll(const Team& team, const AllToAllSpec& spec, const CollectiveOptions& options = {});

  /// The algorithms, other than "auto", that a plan for runs on such tensors can be asked for.
  [[nodiscard]] static std::span<const std::string_view> algorithms(Tensors tensors) noexcept;

  /// The algorithm that a run with parts of up to `count` elements uses. If parts differ, the answer for "auto" assumes
  /// that all are multiples of 16 bytes if the longest is; a run with others may use another. Throws InvalidArgument
  /// unless `count` is 0 to that of the spec, and for tensors that the plan does not take.
  [[nodiscard]] std::string_view algorithm(std::int64_t count, Tensors tensors) const;

  void operator()(const TensorView& input, const SymmetricTensor& out, StreamRef stream);
  void operator()(const SymmetricTensor& input, const TensorView& out, StreamRef stream);
  void operator()(const TensorView& input, const TensorView& out, StreamRef stream);

  // Symmetric tensors have the same size on all ranks: large enough for the rank that needs most. Plain views have
  // exactly the number of elements that their rank sends or receives.
  void operator()(const TensorView& input, const SymmetricTensor& out, std::span<const std::int64_t> counts,
                  StreamRef stream);
  void operator()(const SymmetricTensor& input, const TensorView& out, std::span<const std::int64_t> counts,
                  StreamRef stream);
  void operator()(const TensorView& input, const TensorView& out, std::span<const std::int64_t> counts,
                  StreamRef stream);

 private:
  class State;
};
static_assert(Owner<AllToAll>);

/// Runs the plan that `team` caches for this dtype and size class; the first call for each creates that plan, which is
/// collective. A plan serves counts up to the next power of two, at least 65536, and allocates memory for that many.
/// Throws InvalidArgument if the plan would have to be created while `stream` is being captured.
TANDEM_API void all_to_all(const Team& team, const TensorView& input, const TensorView& out, StreamRef stream);
TANDEM_API void all_to_all(const Team& team, const TensorView& input, const TensorView& out,
                           std::span<const std::int64_t> counts, StreamRef stream);
TANDEM_API void all_to_all(const Team& team, const TensorView& input, const SymmetricTensor& out, StreamRef stream);
TANDEM_API void all_to_all(const Team& team, const TensorView& input, const SymmetricTensor& out,
                           std::span<const std::int64_t> counts, StreamRef stream);
TANDEM_API void all_to_all(const Team& team, const SymmetricTensor& input, const TensorView& out, StreamRef stream);
TANDEM_API void all_to_all(const Team& team, const SymmetricTensor& input, const TensorView& out,
                           std::span<const std::int64_t> counts, StreamRef stream);

}  // namespace tandem
