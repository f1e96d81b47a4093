// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tandem/collective/collective.hpp"

namespace tandem {

struct AllReduceSpec {
  std::int64_t count = 0;  ///< elements; an upper bound for all runs
  DType dtype = f32;       ///< f32, f16, bf16, f64, i32 or i64
};

/// Every rank gets the sum of all ranks' inputs, the same bits on all. Sums are made in rank order, in fp32 or wider,
/// and rounded once.
///
/// "one_shot": each rank puts its input into its own slot, and reads and adds everybody's: two steps fewer, but every
/// rank reads everything. "two_shot": each rank adds one chunk of ceil(count / ranks) elements (rounded up to 256
/// bytes), and hands the sum to the others. Into a symmetric tensor, it reads and writes peers' tensors in place, and
/// nothing is staged; otherwise messages go in pieces through the plan's own memory. "fetch", for plain views: the same
/// two shots, in which each rank reads its peers' inputs and sums where they are, where the system lets it (see
/// Collective). "mail": each rank writes its input into a mailbox at every peer, and adds what it gets: the shortest
/// way for the shortest messages, which longer ones may be made to take in pieces. "one_kernel", on CUDA: the same, in
/// one kernel that takes up to 64 thread blocks (or CollectiveOptions::sms) and counts for itself which mailbox is
/// next, so that a graph of it needs no further signals. "one_kernel_two_shot": the two shots, both by mail, in one
/// kernel. "direct_kernel", on CUDA, into symmetric tensors: the two shots in place, in one kernel.
class TANDEM_API AllReduce final : public Collective {
 public:
  /// Collective. Algorithms: "one_shot", "two_shot", "fetch", "mail", "one_kernel", "one_kernel_two_shot",
  /// "direct_kernel"; "auto" mails the smallest (host), takes the kernels (CUDA) or one_shot for small counts, and
  /// between two ranks one_shot for all plain views, as both shots move equally much then; all of these need staging.
  /// It fetches large plain views.
  AllReduce(const Team& team, const AllReduceSpec& spec, const CollectiveOptions& options = {});

  /// What a run of `count` elements takes: one of the algorithms; or "copy", where a rank is alone.
  [[nodiscard]] std::string_view algorithm(std::int64_t count, Tensors tensors) const noexcept;

  // All tensors of a run have equally many elements. `out` may be `input` itself, and else lies apart from it.
  void operator()(const SymmetricTensor& tensor, StreamRef stream);
  void operator()(const SymmetricTensor& input, const SymmetricTensor& out, StreamRef stream);
  void operator()(const TensorView& input, const SymmetricTensor& out, StreamRef stream);
  void operator()(const SymmetricTensor& input, const TensorView& out, StreamRef stream);
  void operator()(const TensorView& input, const TensorView& out, StreamRef stream);

 private:
  enum class Way : std::uint8_t;
  [[nodiscard]] Way way(std::int64_t count, Tensors tensors) const noexcept;
  [[nodiscard]] bool takes_one_shot(std::int64_t count, Tensors tensors) const noexcept;
  [[nodiscard]] Shard chunk(std::int64_t count, int rank) const noexcept;
  void in_place(Way way, const SymmetricTensor& input, const SymmetricTensor& out, std::int64_t count,
                StreamRef stream);
  /// In how many steps one kernel is to run it; 0: not one kernel.
  [[nodiscard]] int kernel_steps(std::int64_t count) const noexcept;
  /// What goes alike between any tensors, within a run. False: the way is another one.
  [[nodiscard]] bool run_alike(Way way, const std::byte* input, std::byte* out, std::int64_t count, StreamRef stream);
  void mail(const std::byte* input, std::byte* out, std::int64_t count, StreamRef stream);
  void one_kernel(const std::byte* input, std::byte* out, std::int64_t count, int steps, StreamRef stream);
  void one_shot(const std::byte* input, std::byte* out, std::int64_t count, StreamRef stream);
  void fetch(const std::byte* input, std::byte* out, std::int64_t count, StreamRef stream);
  void two_shot(const std::byte* input, const SymmetricTensor* symmetric, std::byte* out, std::int64_t count,
                StreamRef stream);

  std::int64_t count_;
  std::vector<const void*> sources_;
  std::vector<void*> destinations_;
};

/// Runs the plan that `team` keeps for this dtype and size; the first call of a kind makes it, and is collective. A
/// plan serves counts up to the next power of two, 65536 at least, which its memory is for. Throws InvalidArgument
/// where it would have to be made while the stream is captured.
TANDEM_API void all_reduce(const Team& team, const TensorView& input, const TensorView& out, StreamRef stream);
TANDEM_API void all_reduce(const Team& team, const SymmetricTensor& tensor, StreamRef stream);
TANDEM_API void all_reduce(const Team& team, const SymmetricTensor& input, const SymmetricTensor& out,
                           StreamRef stream);
TANDEM_API void all_reduce(const Team& team, const TensorView& input, const SymmetricTensor& out, StreamRef stream);
TANDEM_API void all_reduce(const Team& team, const SymmetricTensor& input, const TensorView& out, StreamRef stream);

}  // namespace tandem
