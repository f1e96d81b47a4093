// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tandem/collective/collective.hpp"

namespace tandem {

struct ReduceScatterSpec {
  std::int64_t count = 0;  ///< elements of one rank's full shard; an upper bound for all runs
  DType dtype = f32;       ///< f32, f16, bf16, f64, i32 or i64
};

/// Every rank gets its shard of the sum of all ranks' inputs. The input is split by rows of its first dimension:
/// ceil(rows / ranks) rows a rank, the last ranks fewer or none (shard_of). Sums are made in rank order, in fp32 or
/// wider, and rounded once.
///
/// From a symmetric tensor, "direct": one reduction reads all ranks' tensors. From a plain view, "fetch": each rank
/// reads its peers' inputs where they are, where the system lets it (see Collective); or "staged": the input goes in
/// pieces through the plan's own memory, where the reduction reads it. From any, "mail": each rank writes each peer's
/// part into a mailbox there; the shortest way for the shortest parts. "one_kernel", on CUDA: the same in one kernel of
/// up to 64 thread blocks (or CollectiveOptions::sms). "direct_kernel", on CUDA, from symmetric tensors: "direct", in
/// one kernel.
class TANDEM_API ReduceScatter final : public Collective {
 public:
  /// Collective. Algorithms: "direct" and "direct_kernel" for symmetric tensors, "staged" and "fetch" for plain
  /// views, "mail" and "one_kernel" for both; "auto" takes the one that fits, fetches what is large, and takes the
  /// kernels (CUDA) or mails (host) for what is small.
  ReduceScatter(const Team& team, const ReduceScatterSpec& spec, const CollectiveOptions& options = {});

  /// What a run of shards with up to `count` elements takes: one of the algorithms.
  [[nodiscard]] std::string_view algorithm(std::int64_t count, Tensors tensors) const noexcept;

  /// In place: the sum of this rank's shard takes its place in `input`; the rest of `input` stays as it is.
  void operator()(const SymmetricTensor& input, StreamRef stream);
  /// `shard` has this rank's share of `input`'s elements; it may be its own place in `input`, and else lies apart.
  void operator()(const SymmetricTensor& input, const TensorView& shard, StreamRef stream);
  void operator()(const TensorView& input, const TensorView& shard, StreamRef stream);

 private:
  void direct(const SymmetricTensor& input, void* shard, const Split& whole, StreamRef stream);
  void find_sources(const SymmetricTensor& input, const Shard& mine);
  enum class Way : std::uint8_t;
  /// How shards of up to so many bytes go.
  [[nodiscard]] Way way(std::size_t bytes, Tensors tensors) const noexcept;
  void meet(const SymmetricTensor& input, void* shard, const Split& whole, StreamRef stream);
  void mail(const std::byte* input, std::byte* shard, const Split& whole, StreamRef stream);
  void fetch(const std::byte* input, std::byte* shard, const Split& whole, StreamRef stream);
  void staged(const std::byte* input, std::byte* shard, const Split& whole, StreamRef stream);
  [[nodiscard]] Split split_of(const TensorView& input) const;

  std::int64_t count_;
  std::vector<const void*> sources_;
};

/// Runs the plan that `team` keeps for this dtype and size; the first call of a kind makes it, and is collective. A
/// plan serves counts up to the next power of two, 65536 at least, which its memory is for. Throws InvalidArgument
/// where it would have to be made while the stream is captured.
TANDEM_API void reduce_scatter(const Team& team, const TensorView& input, const TensorView& shard, StreamRef stream);
TANDEM_API void reduce_scatter(const Team& team, const SymmetricTensor& input, const TensorView& shard,
                               StreamRef stream);
TANDEM_API void reduce_scatter(const Team& team, const SymmetricTensor& input, StreamRef stream);

}  // namespace tandem
