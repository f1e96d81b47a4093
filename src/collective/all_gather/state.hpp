// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tandem/base/tensor_view.hpp"
#include "tandem/collective/all_gather.hpp"
#include "tandem/device/event.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/memory/symmetric_tensor.hpp"

#include "collective/collective_state.hpp"
#include "collective/rows.hpp"
#include "collective/side_stream.hpp"

namespace tandem {

/// The plan's state and its algorithms. What is public does what the plan's member of that name does, `run` what its
/// operator() does.
class AllGather::State final : public CollectiveState {
 public:
  State(const Team& team, const AllGatherSpec& spec, const CollectiveOptions& options);

  [[nodiscard]] std::string_view algorithm(std::int64_t count, Tensors tensors) const;
  void run(const SymmetricTensor& gathered, StreamRef stream);
  void run(const TensorView& shard, const SymmetricTensor& gathered, StreamRef stream);
  void run(const TensorView& shard, const TensorView& gathered, StreamRef stream);
  void start(const SymmetricTensor& gathered, StreamRef stream);
  void start(const TensorView& shard, const SymmetricTensor& gathered, StreamRef stream);
  void wait_shard(int rank, StreamRef stream);
  void finish(StreamRef stream);

 private:
  /// Throws InvalidArgument if the plan refuses such tensors.
  void expect_taken(Tensors tensors) const;
  void gather(const Rows& shard, const SymmetricTensor& gathered, const Split& whole, StreamRef stream);
  void open(const Rows& shard, const SymmetricTensor& gathered, StreamRef stream);
  enum class Awaited : std::uint8_t { each, all };
  /// Where copy engines copy, shards that are awaited all together are sent in one batch with one signal.
  void push(const Rows& shard, const SymmetricTensor& gathered, Awaited shards, StreamRef stream);
  /// The copies of `push`: to all peers and, unless in place, into this rank's own tensor.
  void push_at_once(const Rows& shard, const SymmetricTensor& gathered, bool in_place, StreamRef stream);
  /// In the order of `ways` in state.cpp.
  enum class Way : std::uint8_t { push, staged, fetch, mail, one_kernel, direct_kernel };
  /// The algorithm for shards of up to `bytes` bytes.
  [[nodiscard]] Way way(std::size_t bytes, Tensors tensors) const noexcept;
  void direct(const std::byte* shard, const SymmetricTensor& gathered, const Split& whole, StreamRef stream);
  void mail(const std::byte* shard, std::byte* gathered, const Split& whole, StreamRef stream);
  void fetch(const std::byte* shard, std::byte* gathered, const Split& whole, StreamRef stream);
  void staged(const Rows& shard, const Rows& gathered, const Split& whole, StreamRef stream);
  [[nodiscard]] Split split_of(const TensorView& gathered) const;
  void expect_closed(StreamRef stream);
  /// Throws unless a run was started, and in the capture that `stream` is in (or both in none).
  void expect_open(StreamRef stream, const char* otherwise) const;
  void wait_for_rest(StreamRef stream);

  std::int64_t count_;
  std::unique_ptr<SideStream> beside_;  // with copy engines: for large copies within this GPU
  Event started_at_;                    // start() of a run in steps: what the stream had before it
  std::vector<int> everyone_;           // the peers in rotated order, then this rank
  std::vector<std::uint8_t> coming_;    // by rank: a signal of the started run is still to be waited for
  bool own_in_place_ = false;           // in that run: then the own shard has no signal
  bool started_ = false;
  std::uint64_t started_in_ = 0;  // the capture; 0: none
};

}  // namespace tandem
