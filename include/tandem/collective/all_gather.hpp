// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tandem/collective/collective.hpp"

namespace tandem {

class SideStream;

struct AllGatherSpec {
  std::int64_t count = 0;  ///< elements of one rank's full shard; an upper bound for all runs
  DType dtype = f32;       ///< any
};

/// Every rank gets every rank's shard, one after the other in rank order. The gathered tensor is split by rows of its
/// first dimension: ceil(rows / ranks) rows a rank, the last ranks fewer or none (shard_of).
///
/// Into a symmetric tensor, "push": each rank writes its shard straight into its peers' tensors, in rank-rotated order,
/// and signals each; nothing is staged, and on CUDA copy engines move all data, so that SMs run only the small kernels
/// that signal and wait. Into a plain view, "fetch": each rank reads its peers' shards where they are, where the system
/// lets it (see Collective); or "pull": shards go in pieces through the plan's own memory, and each rank copies its
/// peers' from there. From any to any, "mail": each rank writes its shard into a mailbox at every peer, in as many
/// steps as it has letters; the shortest way for the shortest shards. "one_kernel", on CUDA: the same in one kernel of
/// up to 64 thread blocks (or CollectiveOptions::sms, 0 of which leave all to copy engines). "direct_kernel", on CUDA,
/// into symmetric tensors: one kernel that stores into all of them.
class TANDEM_API AllGather final : public Collective {
 public:
  /// Collective. Algorithms: "push" and "direct_kernel" for symmetric tensors, "pull" and "fetch" for plain views,
  /// "mail" and "one_kernel" for both; "auto" takes the one that fits, fetches what is large, and takes the kernels
  /// (CUDA) or mails (host) for what is small.
  AllGather(const Team& team, const AllGatherSpec& spec, const CollectiveOptions& options = {});
  AllGather(AllGather&&) noexcept;
  AllGather& operator=(AllGather&&) noexcept;
  ~AllGather();

  /// What a run of shards with up to `count` elements takes: one of the algorithms.
  [[nodiscard]] std::string_view algorithm(std::int64_t count, Tensors tensors) const noexcept;

  /// In place: this rank's shard lies where it belongs in `gathered`.
  void operator()(const SymmetricTensor& gathered, StreamRef stream);
  /// `shard` has this rank's share of `gathered`'s elements; it may be its own place in `gathered`, and else lies
  /// apart.
  void operator()(const TensorView& shard, const SymmetricTensor& gathered, StreamRef stream);
  void operator()(const TensorView& shard, const TensorView& gathered, StreamRef stream);

  // A run into a symmetric tensor in three steps, for consumers that begin with the first shard: `start` once, then
  // `wait_shard` for some ranks, each at most once, on any stream; then `finish`, which waits for the rest. Always by
  // pushes, whatever `algorithm` says; a plan that was asked for another algorithm refuses it.
  // Until then the plan takes no other run; but what a dropped capture started is forgotten. Captured, all steps are in
  // one graph.

  /// From here on, in `stream`'s order, peers may write into `gathered`.
  void start(const SymmetricTensor& gathered, StreamRef stream);
  void start(const TensorView& shard, const SymmetricTensor& gathered, StreamRef stream);
  /// What is queued on `stream` after this sees the shard of `rank`.
  void wait_shard(StreamRef stream, int rank);
  /// What is queued on `stream` after this sees all shards but those that `wait_shard` waited for on other streams, and
  /// may change what `start` was given. The next run begins after this point; it is for the caller to let it begin
  /// after the other streams' readers as well.
  void finish(StreamRef stream);

 private:
  void gather(const Rows& shard, const SymmetricTensor& gathered, const Split& whole, StreamRef stream);
  void open(const Rows& shard, const SymmetricTensor& gathered, StreamRef stream);
  enum class Awaited : std::uint8_t { each, all };
  /// Shards that are awaited all together leave in one batch, with one signal, where engines copy.
  void push(const Rows& shard, const SymmetricTensor& gathered, Awaited shards, StreamRef stream);
  /// Its copies, to all peers and, unless it is in place, into this rank's own tensor.
  void push_at_once(const Rows& shard, const SymmetricTensor& gathered, bool in_place, StreamRef stream);
  enum class Way : std::uint8_t;
  /// How shards of up to so many bytes go.
  [[nodiscard]] Way way(std::size_t bytes, Tensors tensors) const noexcept;
  void direct(const std::byte* shard, const SymmetricTensor& gathered, const Split& whole, StreamRef stream);
  void mail(const std::byte* shard, std::byte* gathered, const Split& whole, StreamRef stream);
  void fetch(const std::byte* shard, std::byte* gathered, const Split& whole, StreamRef stream);
  void pull(const Rows& shard, const Rows& gathered, const Split& whole, StreamRef stream);
  [[nodiscard]] Split split_of(const TensorView& gathered) const;
  void expect_closed(StreamRef stream);
  /// Refuses a later step of a run that was not started, or in another capture than the stream's.
  void expect_open(StreamRef stream, const char* otherwise) const;
  void wait_for_rest(StreamRef stream);

  std::int64_t count_;
  std::unique_ptr<SideStream> beside_;  // where engines copy: for what is long and stays on this GPU
  Event started_at_;                    // where what comes before a run in steps has ended
  std::vector<int> everyone_;           // the peers in rotated order, then this rank
  std::vector<std::uint8_t> coming_;    // by rank: a signal of the run that was started has not been waited for
  bool own_in_place_ = false;           // in that run, where the own shard has no signal
  bool started_ = false;
  std::uint64_t started_in_ = 0;  // a capture, or none
};

/// Runs the plan that `team` keeps for this dtype and size; the first call of a kind makes it, and is collective. A
/// plan serves counts up to the next power of two, 65536 at least, which its memory is for. Throws InvalidArgument
/// where it would have to be made while the stream is captured.
TANDEM_API void all_gather(const Team& team, const TensorView& shard, const TensorView& gathered, StreamRef stream);
TANDEM_API void all_gather(const Team& team, const TensorView& shard, const SymmetricTensor& gathered,
                           StreamRef stream);
TANDEM_API void all_gather(const Team& team, const SymmetricTensor& gathered, StreamRef stream);

}  // namespace tandem
