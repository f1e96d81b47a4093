// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "tandem/device/buffer.hpp"
#include "tandem/device/stream.hpp"

#include "linear/row_parallel/layer.hpp"
#include "linear/row_parallel/partial_product.hpp"
#include "memory/mail_lanes.hpp"
#include "memory/meeting_place.hpp"
#include "memory/owners.hpp"
#include "team/reclaimed.hpp"

namespace tandem {

/// What follows the unsplit GEMM of a row-parallel layer, by kernels that exchange the partial sums and add them up,
/// where the device has such: small ones by mail, large ones in each other's memory. An all-reduce's second half is in
/// them.
class ExchangedSums {
 public:
  /// Collective. Empty if the layer is not computed in sequence, or copies do better.
  explicit ExchangedSums(const RowParallelLayer& layer);

  [[nodiscard]] explicit operator bool() const noexcept { return mails() || meeting_; }
  /// What communicates and what sums, for a plan's `describe`.
  [[nodiscard]] std::string communication() const;
  /// Owners of what its runs use.
  [[nodiscard]] Owners owners() const;

  /// Multiplies, exchanges and sums: all rows that the caller gets.
  void run(PartialProduct& product, const RowParallelOperands& run, StreamRef stream) const;

 private:
  [[nodiscard]] bool mails() const noexcept { return lanes_.bytes() != 0; }
  void reduce_by_mail(const RowParallelOperands& run, StreamRef stream) const;
  /// Whether each rank of an all-reduce sums all rows in a meeting. Two ranks then read no more from each other, but
  /// with an activation the twofold rows cost the few blocks that fill the links more than a second meeting.
  [[nodiscard]] bool adds_up_all() const noexcept {
    return layer_.summed == RowParallelLayer::Rows::all && layer_.team.size() == 2 &&
           layer_.spec.activation == Activation::none;
  }
  /// Sums what is in all ranks' memory: all rows; or the own ones, after which an all-reduce copies the peers' sums.
  void reduce_in_meeting(const RowParallelOperands& run, StreamRef stream) const;
  /// Each rank sums its own rows, and stores them into all ranks' symmetric y.
  void reduce_into_all(const RowParallelOperands& run, StreamRef stream) const;
  /// Whether that is possible, and faster than mail, which would take two steps.
  [[nodiscard]] bool stores_into_all(const RowParallelOperands& run) const;
  void take_sums_in_meeting(const RowParallelOperands& run, StreamRef stream) const;
  /// The partial sums of row `row` of the team's rank `rank`, in a meeting.
  [[nodiscard]] std::byte* met(int rank, std::int64_t row) const {
    return meeting_.memory(rank) + static_cast<std::size_t>(row) * layer_.row_bytes();
  }
  /// This rank's partial sums of all rows.
  [[nodiscard]] std::byte* products() const {
    return meeting_ ? meeting_.memory(layer_.team.rank()) : staging_->data_as<std::byte>();
  }
  /// Of the largest shard of the run's rows.
  [[nodiscard]] std::size_t shard_bytes(const RowParallelOperands& run) const {
    return static_cast<std::size_t>(shard_of(run.m, layer_.team.size(), 0).count) * layer_.row_bytes();
  }

  RowParallelLayer layer_;
  MeetingPlace meeting_;       ///< large sizes: kernels work on all ranks' results, in its memory
  MailLanes lanes_;            ///< small sizes: one kernel, at least if y is not symmetric
  Reclaimed<Buffer> staging_;  ///< the results that only this rank reads
};

}  // namespace tandem
