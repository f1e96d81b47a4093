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

struct AllReduceSpec {
  std::int64_t count = 0;  ///< elements; an upper bound for all runs
  DType dtype = f32;       ///< f32, f16, bf16, f64, i32 or i64
};

/// Every rank gets the sum of all ranks' inputs, bitwise identical on all ranks. Sums are computed in rank order, in
/// fp32 or wider, and rounded once.
///
/// "one_shot": each rank puts its input into its own slot, then reads and adds everybody's: two steps fewer, but every
/// rank reads everything. "two_shot": each rank sums one chunk of ceil(count / ranks) elements (rounded up to 256
/// bytes) and passes the sum on to the others. Into a symmetric tensor it reads and writes the peers' tensors in place
/// and stages nothing; otherwise messages are staged in pieces in the plan's own memory. "fetch", for plain views: two
/// shots in which each rank reads its peers' inputs and sums in place, if the system allows it (see Collective).
/// "mail": each rank writes its input into a mailbox at every peer and sums what it receives: fastest for the smallest
/// messages; longer ones go in pieces if it is asked for. "one_kernel", on CUDA: the same in one kernel of up to 64
/// thread blocks (or CollectiveOptions::sms), which tracks by itself which mailbox is next, so that a graph of it needs
/// no further signals. "one_kernel_two_shot": both shots by mail, in one kernel. "direct_kernel", on CUDA, into
/// symmetric tensors: both shots in place, in one kernel.
class TANDEM_API AllReduce final : public Collective {
 public:
  /// Collective. "auto" uses "mail" for the smallest counts (host), a kernel (CUDA) or "one_shot" for small ones, and
  /// between two ranks "one_shot" for all plain views, since both shots then move the same amount; all of these need
  /// staging. For large plain views it uses "fetch".
  AllReduce(const Team& team, const AllReduceSpec& spec, const CollectiveOptions& options = {});

  /// The algorithms, other than "auto", that a plan for runs on such tensors can be asked for.
  [[nodiscard]] static std::span<const std::string_view> algorithms(Tensors tensors) noexcept;

  /// The algorithm that a run of `count` elements uses; "copy" in a team of one rank. Throws InvalidArgument unless
  /// `count` is 0 to that of the spec, and for tensors that the plan does not take.
  [[nodiscard]] std::string_view algorithm(std::int64_t count, Tensors tensors) const;

  // All tensors of a run have the same number of elements. `out` is `input` itself or does not overlap it.
  void operator()(const SymmetricTensor& tensor, StreamRef stream);
  void operator()(const SymmetricTensor& input, const SymmetricTensor& out, StreamRef stream);
  void operator()(const TensorView& input, const SymmetricTensor& out, StreamRef stream);
  void operator()(const SymmetricTensor& input, const TensorView& out, StreamRef stream);
  void operator()(const TensorView& input, const TensorView& out, StreamRef stream);

 private:
  class State;
};
static_assert(Owner<AllReduce>);

/// Runs the plan that `team` caches for this dtype and size class; the first call for each creates that plan, which is
/// collective. A plan serves counts up to the next power of two, at least 65536, and allocates memory for that many.
/// Throws InvalidArgument if the plan would have to be created while `stream` is being captured.
TANDEM_API void all_reduce(const Team& team, const TensorView& input, const TensorView& out, StreamRef stream);
TANDEM_API void all_reduce(const Team& team, const SymmetricTensor& tensor, StreamRef stream);
TANDEM_API void all_reduce(const Team& team, const SymmetricTensor& input, const SymmetricTensor& out,
                           StreamRef stream);
TANDEM_API void all_reduce(const Team& team, const TensorView& input, const SymmetricTensor& out, StreamRef stream);
TANDEM_API void all_reduce(const Team& team, const SymmetricTensor& input, const TensorView& out, StreamRef stream);

}  // namespace tandem
