// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tandem/base/tensor_view.hpp"
#include "tandem/collective/reduce_scatter.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "collective/collective_state.hpp"
#include "collective/piece.hpp"
#include "collective/side_stream.hpp"

namespace tandem {

/// The plan's state and its algorithms. What is public does what the plan's member of that name does, `run` what its
/// operator() does.
class ReduceScatter::State final : public CollectiveState {
 public:
  State(const Team& team, const ReduceScatterSpec& spec, const CollectiveOptions& options);

  [[nodiscard]] std::string_view algorithm(std::int64_t count, Tensors tensors) const;
  void run(const SymmetricTensor& input, StreamRef stream);
  void run(const SymmetricTensor& input, const TensorView& shard, StreamRef stream);
  void run(const TensorView& input, const TensorView& shard, StreamRef stream);

 private:
  /// Throws InvalidArgument if the plan refuses such tensors.
  void expect_taken(Tensors tensors) const;
  /// Throws unless `shard` can take this rank's sums.
  void expect_sums_fit(const TensorView& shard, const TensorView& input, const Split& whole) const;
  void run_on_symmetric(const SymmetricTensor& input, void* shard, const Split& whole, StreamRef stream);
  void find_sources(const SymmetricTensor& input, const Shard& mine);
  /// In the order of `ways` in state.cpp.
  enum class Way : std::uint8_t { direct, staged, fetch, mail, one_kernel, direct_kernel, push };
  /// The algorithm for shards of up to `bytes` bytes.
  [[nodiscard]] Way way(std::size_t bytes, Tensors tensors) const noexcept;
  void meet(const SymmetricTensor& input, void* shard, const Split& whole, StreamRef stream);
  void mail(const std::byte* input, std::byte* shard, const Split& whole, StreamRef stream);
  void fetch(const std::byte* input, std::byte* shard, const Split& whole, StreamRef stream);
  void staged(const std::byte* input, std::byte* shard, const Split& whole, StreamRef stream);
  /// A piece of every rank's part, in a slot of the rank whose part it is.
  struct Pushed {
    std::size_t begin;  ///< bytes from the part's beginning
    std::size_t bytes;  ///< of a full piece
    int slot;

    [[nodiscard]] std::size_t place_of(int sender) const noexcept { return static_cast<std::size_t>(sender) * bytes; }
    /// Its bytes of a part of `part` bytes.
    [[nodiscard]] std::size_t bytes_of_part(std::size_t part) const noexcept {
      return bytes_in_piece(begin, part, bytes);
    }
  };
  void push(const std::byte* input, std::byte* shard, const Split& whole, StreamRef stream);
  /// The pieces of `push`: copies on `stream`, sums on `beside` or, if null, on `stream`, too.
  void push_pieces(const std::byte* input, std::byte* shard, const Split& whole, StreamRef stream, SideStream* beside);
  void push_piece(const Pushed& piece, const std::byte* input, const Split& whole, StreamRef stream);
  void sum_piece(const Pushed& piece, const std::byte* input, std::byte* shard, const Split& whole, StreamRef stream);
  [[nodiscard]] Split split_of(const TensorView& input) const;

  std::int64_t count_;
  std::vector<const void*> sources_;
  std::unique_ptr<SideStream> beside_;  ///< where "push" sums pieces; null: on the caller's stream
};

}  // namespace tandem
