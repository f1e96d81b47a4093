// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tandem/device/buffer.hpp"
#include "tandem/device/stream.hpp"

#include "linear/communication_streams.hpp"
#include "linear/groups.hpp"
#include "linear/row_parallel/layer.hpp"
#include "linear/row_parallel/partial_product.hpp"
#include "memory/owners.hpp"
#include "memory/slots.hpp"
#include "team/reclaimed.hpp"

namespace tandem {

/// The GEMMs of a row-parallel layer and the reduce-scatter behind them, through slots: each rank sends every rank's
/// rows to their owner, who sums what it receives for its own rows. For an all-reduce each slot has a tail, from which
/// the peers copy the sums of this rank's rows.
class PartialSums {
 public:
  /// Collective, for a team of two or more. `product` must outlive it. `rounds`: for what runs in rounds, the part of
  /// every rank's rows that each computes (`shard` is ignored); otherwise one, the whole shard.
  PartialSums(const RowParallelLayer& layer, PartialProduct& product, std::vector<ShardPart> rounds);

  /// Owners of what its runs use, but for the product's.
  [[nodiscard]] Owners owners() const;
  /// What communicates and what sums, for a plan's `describe`.
  [[nodiscard]] std::string communication() const;

  /// Multiplies the groups, of which there is one at least, in order, pushing each while the next one is multiplied,
  /// and the last while the own rows are.
  void multiply_overlapped(const RowParallelOperands& run, std::span<const ShardGroup> groups, StreamRef stream,
                           CommunicationStreams& communication);
  /// Multiplies each peer's rows directly into its slot, the own rows last. Nothing is copied.
  void multiply_direct(const RowParallelOperands& run, StreamRef stream, CommunicationStreams& streams);
  /// Multiplies once, then pushes everything in one batch, and sums.
  void in_sequence(const RowParallelOperands& run, StreamRef stream);

  // Multiplying and pushing in rounds, each of one part of every rank's rows.

  [[nodiscard]] std::uint32_t rounds() const noexcept { return static_cast<std::uint32_t>(rounds_.size()); }
  /// Begins a run in rounds.
  void take_slot(StreamRef stream);
  /// Multiplies the round's part of each peer's rows, pushing it while the next peer's is multiplied.
  void multiply_peers(const RowParallelOperands& run, std::uint32_t round, StreamRef stream,
                      CommunicationStreams& communication);
  void multiply_own(const RowParallelOperands& run, std::uint32_t round, StreamRef stream);
  /// Waits for the peer's partial sums of the round's own rows, and multiplies: GEMM + these + bias, into y or, for an
  /// all-reduce, into the slot's tail, from which both ranks copy them.
  void multiply_adding(const RowParallelOperands& run, std::uint32_t round, StreamRef stream);

  // After `multiply_own`; what does not run in rounds has one, 0.

  /// Waits for the peers' partial sums of the round's own rows.
  void wait_for_parts(std::uint32_t round, StreamRef stream) const;
  /// Sums them, after `wait_for_parts`: y = activation(Σ + bias).
  void add_parts(const RowParallelOperands& run, std::uint32_t round, StreamRef stream) const {
    add(run, rounds_[round], region(rank(), rank()), stream);
  }
  /// `wait_for_parts` and `add_parts`.
  void reduce(const RowParallelOperands& run, std::uint32_t round, StreamRef stream) const {
    wait_for_parts(round, stream);
    add_parts(run, round, stream);
  }

  /// Allows the peers to push into this run's slot again, and to overwrite the tails of their own. After all sums.
  void finish(StreamRef stream) const { slots_.grant(stream, slot_, slots_.peers()); }

  // Only for an all-reduce.

  /// Call after summing the own rows: the peers may take the sums.
  void offer_sums(StreamRef stream) const { slots_.signal(stream, slot_, slots_.peers(), in_tail); }
  /// Waits until the peers offer theirs. On a stream of its own it need not, and should not, be ordered after the
  /// GEMMs: a kernel that is launched as a GEMM begins may have to wait until that one ends.
  void wait_for_sums(StreamRef stream) const;
  /// Copies the peers' sums into y.
  void take_sums(const RowParallelOperands& run, std::uint32_t round, StreamRef stream) const;
  /// Copies all own sums, which `multiply_adding` left in the tail, into y, while the peers' last ones are in transfer:
  /// concurrently with those of each round, such copies would slow the link.
  void keep_sums(const RowParallelOperands& run, StreamRef stream) const;
  /// offer_sums, wait_for_sums and take_sums, after `reduce`, for what does not run in rounds.
  void spread_sums(const RowParallelOperands& run, StreamRef stream) const {
    offer_sums(stream);
    wait_for_sums(stream);
    take_sums(run, 0, stream);
  }

 private:
  static constexpr ShardPart whole_shard{};
  // What ranks signal to each other: my sums are in my tail; a round's partial sums of your rows are in your slot.
  static constexpr std::uint32_t in_tail = 0;
  static constexpr std::uint32_t in_region(std::uint32_t round) noexcept { return 1 + round; }

  [[nodiscard]] const Team& team() const noexcept { return layer_.team; }
  [[nodiscard]] int rank() const { return team().rank(); }
  [[nodiscard]] bool has_tail() const noexcept { return layer_.summed == RowParallelLayer::Rows::all; }

  void multiply_staged(const RowParallelOperands& run, Shard rows, StreamRef stream) {
    product_.multiply(run, rows, staged(rows.begin), stream);
  }
  /// Pushes a part to its owner; its `last` one of a round with a signal, counted when the slot was taken.
  void push(const RowParallelOperands& run, const ShardPart& part, bool last, std::uint32_t round,
            StreamRef stream) const;
  void push_all(const RowParallelOperands& run, StreamRef stream) const;
  /// Sums a part of the own rows; `own`: this rank's partial sums of the whole shard.
  void add(const RowParallelOperands& run, const ShardPart& part, const std::byte* own, StreamRef stream) const;
  /// This rank's rows of a part.
  [[nodiscard]] Shard own_rows(std::int64_t m, const ShardPart& part) const {
    return part_rows(m, team().size(), rank(), part);
  }
  /// The region of `rank`'s slot for what `from` sends.
  [[nodiscard]] std::byte* region(int rank, int from) const {
    return slots_.remote(slot_, rank) + static_cast<std::size_t>(from) * region_bytes_;
  }
  [[nodiscard]] std::byte* tail(int rank) const { return slots_.remote(slot_, rank) + tail_offset_; }
  /// Bytes from the first of `owner`'s rows to the first of `rows`.
  [[nodiscard]] std::size_t bytes_before(const RowParallelOperands& run, int owner, const Shard& rows) const {
    return static_cast<std::size_t>(rows.begin - shard_of(run.m, team().size(), owner).begin) * row_bytes_;
  }
  /// This rank's partial sums of row `row`, before they are pushed.
  [[nodiscard]] std::byte* staged(std::int64_t row) const {
    return staging_->data_as<std::byte>() + static_cast<std::size_t>(row) * row_bytes_;
  }

  RowParallelLayer layer_;
  PartialProduct& product_;
  std::size_t row_bytes_;
  std::size_t region_bytes_;  ///< of the region in a slot for what one rank sends
  std::size_t tail_offset_;
  std::vector<ShardPart> rounds_;
  Slots slots_;
  Reclaimed<Buffer> staging_;  ///< all rows' results, unless GEMMs store them at their owners
  int slot_ = 0;               ///< this run's
};

}  // namespace tandem
