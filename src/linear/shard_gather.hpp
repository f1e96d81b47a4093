// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/device/buffer.hpp"
#include "tandem/linear/cost_model.hpp"
#include "tandem/memory/mail_lanes.hpp"
#include "tandem/memory/meeting_place.hpp"
#include "tandem/memory/slots.hpp"
#include "tandem/team/reclaimed.hpp"

#include "collective/side_stream.hpp"
#include "linear/groups.hpp"

namespace tandem {

/// The gathering half of an operation: every rank pushes its shard of rows into a slot of each peer, in rank-rotated
/// order, and each peer multiplies what has arrived while the rest is on its way. The own shard stays where the caller
/// has it. What is awaited as a whole is one kernel's, where the device has one: then `start` is all, and the rest of
/// what a run does here is nothing.
class ShardGather {
 public:
  /// What is computed between `start` and the first `wait`: a large gather leaves the multiprocessors to that.
  enum class Meanwhile : std::uint8_t { nothing, something };

  /// Whether the rows are read as a whole, also in a team of one. Else that has no place for them.
  enum class Kept : bool { no, yes };

  /// Collective. At most `max_m` rows of `row_bytes` over all ranks, which arrive in the choice's groups; 0: as a
  /// whole.
  ShardGather(const Team& team, std::int64_t max_m, std::size_t row_bytes, const LinearChoice& choice,
              Meanwhile meanwhile, Kept kept, std::uint32_t operation);

  /// What its runs use.
  [[nodiscard]] std::vector<std::shared_ptr<void>> parts() const;
  [[nodiscard]] bool is_one_kernel() const noexcept { return lanes_.bytes() != 0 || meeting_; }
  /// What communicates, for a plan's `describe`.
  [[nodiscard]] std::string communication() const;

  /// Ends when all ranks have come so far. Before `start`, for who has granted a slot that is still read.
  void open(StreamRef stream) const;
  /// Begins a run: takes a slot at each peer. On the caller's stream, in front of what forks off it: on a GPU a kernel
  /// that comes as a product begins may have to wait until that one ends.
  void take_slot(StreamRef stream);
  /// Starts a run of `m` rows whose own shard is `shard`: pushes on `communication`. Behind `take_slot`.
  void start(StreamRef communication, const void* shard, std::int64_t m);
  /// What arrives, in this order; none in a team of one. The rank one step ahead pushes here first, so that shards
  /// that arrive one after the other lie one after the other.
  [[nodiscard]] std::span<const ShardGroup> groups() const noexcept { return groups_; }
  /// What is queued on `stream` from now on may read this group's rows. Once for each group of a run, in their order.
  void wait(StreamRef stream, const ShardGroup& group) const;
  /// The rows of a group in as few ranges as they make, none empty.
  [[nodiscard]] std::vector<RowRange> rows(const ShardGroup& group) const {
    return group_rows(m_, team_.size(), slots_.peers(), group);
  }
  /// The rows of one part.
  [[nodiscard]] RowRange rows(const ShardPart& part) const { return part_rows(m_, team_.size(), owner(part), part); }
  /// Where row `row` of this run lies. The own shard's place is free until `keep_own` fills it.
  [[nodiscard]] std::byte* row(std::int64_t row) const { return rows() + static_cast<std::size_t>(row) * row_bytes_; }
  /// Copies the own shard to its place among the others.
  void keep_own(StreamRef stream, const void* shard) const;
  /// The same by a copy engine, where there is one: it takes nothing from what is computed meanwhile.
  void keep_own_beside(StreamRef stream, const void* shard) const;
  /// Where this run's shards are.
  [[nodiscard]] int slot() const noexcept { return slot_; }
  /// After the last reader of a run's shards, in stream order: the peers may push into its slot again.
  void finish(StreamRef stream, int slot) const;

 private:
  [[nodiscard]] std::byte* rows() const {
    if (meeting_) return meeting_.memory(team_.rank());
    return lanes_.bytes() != 0 ? gathered_->data_as<std::byte>() : slots_.local(slot_);
  }
  void gather_by_mail(StreamRef stream, const void* shard) const;
  /// Stores the own shard into everybody's memory.
  void gather_in_meeting(StreamRef stream, const void* shard) const;
  /// To all peers in one batch, which has no order: where all is awaited together.
  void push_at_once(StreamRef communication, const void* shard) const;
  /// Part by part, each with its signal: what is awaited first goes first.
  void push_in_turn(StreamRef communication, const void* shard) const;
  [[nodiscard]] Copy to(int peer, const void* shard, const RowRange& rows) const;
  [[nodiscard]] Copy to_own_place(const void* shard) const;
  [[nodiscard]] int owner(const ShardPart& part) const { return slots_.peers()[static_cast<std::size_t>(part.shard)]; }
  [[nodiscard]] RowRange own_rows() const { return shard_rows(m_, team_.size(), team_.rank()); }

  Team team_;
  MeetingPlace meeting_;        ///< where all of what is large is one kernel's
  MailLanes lanes_;             ///< the same of what is small
  Reclaimed<Buffer> gathered_;  ///< by mail
  Slots slots_;
  std::vector<ShardGroup> groups_;
  bool counts_ahead_;  ///< the signals of pushes, for which kernels would find no place beside products
  std::size_t row_bytes_;
  std::optional<int> sms_;
  std::int64_t m_ = 0;
  int slot_ = 0;
};

}  // namespace tandem
