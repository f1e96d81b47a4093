// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/device/buffer.hpp"
#include "tandem/linear/cost_model.hpp"

#include "collective/side_stream.hpp"
#include "linear/groups.hpp"
#include "memory/mail_lanes.hpp"
#include "memory/meeting_place.hpp"
#include "memory/owners.hpp"
#include "memory/slots.hpp"
#include "team/reclaimed.hpp"

namespace tandem {

/// The all-gather of an operation: every rank pushes its shard of rows into a slot of each peer, in rank-rotated order,
/// and each peer multiplies what has arrived while the rest is in transfer. The own shard stays where the caller has
/// it. If all shards are awaited together, one kernel gathers them, where the device has one: then `start` does
/// everything, and the other steps do nothing.
class ShardGather {
 public:
  /// What is computed between `start` and the first `wait`: if something, a large gather leaves the SMs to it.
  enum class Meanwhile : std::uint8_t { nothing, something };

  /// Whether the gathered rows are kept: then a team of one has memory for them, too.
  enum class Kept : bool { no, yes };

  /// Collective. For at most `max_m` rows of `row_bytes` over all ranks, which arrive in `choice.groups` groups; 0: all
  /// together.
  ShardGather(const Team& team, std::int64_t max_m, std::size_t row_bytes, const LinearChoice& choice,
              Meanwhile meanwhile, Kept kept, std::uint32_t operation);

  /// Owners of what its runs use.
  [[nodiscard]] Owners owners() const;
  [[nodiscard]] bool is_one_kernel() const noexcept { return lanes_.bytes() != 0 || meeting_; }
  /// What communicates, for a plan's `describe`.
  [[nodiscard]] std::string communication() const;

  /// Synchronizes with all ranks, before `take_slot`: for a plan that granted slots before their last reader.
  void open(StreamRef stream) const;
  /// Begins a run: takes a slot at each peer. On the caller's stream, before the fork: on a GPU, a kernel that is
  /// launched as a GEMM begins may have to wait until that one ends.
  void take_slot(StreamRef stream);
  /// Starts a run of `m` rows whose own shard is `shard`, after `take_slot`: queues its pushes on `communication`,
  /// which is being captured or not.
  void start(StreamRef communication, const void* shard, std::int64_t m, bool captured);
  /// What arrives, in this order; empty in a team of one. The next rank pushes here first, then the one after it, so
  /// that shards that arrive consecutively are contiguous.
  [[nodiscard]] std::span<const ShardGroup> groups() const noexcept { return groups_; }
  /// Work queued on `stream` from now on may read this group's rows. Call once for each group of a run, in order.
  void wait(StreamRef stream, const ShardGroup& group) const;
  /// The rows of a group in as few ranges as possible, none empty.
  [[nodiscard]] std::vector<Shard> rows(const ShardGroup& group) const {
    return group_rows(m_, team_.size(), slots_.peers(), group);
  }
  /// The rows of one part.
  [[nodiscard]] Shard rows(const ShardPart& part) const { return part_rows(m_, team_.size(), owner(part), part); }
  /// The address of row `row` of this run. The own shard's rows are missing until `keep_own` copies them.
  [[nodiscard]] std::byte* row(std::int64_t row) const { return rows() + static_cast<std::size_t>(row) * row_bytes_; }
  /// Copies the own shard to its place among the others.
  void keep_own(StreamRef stream, const void* shard) const;
  /// `keep_own` by a copy engine, if there is one: it takes no SMs from what is computed meanwhile.
  void keep_own_beside(StreamRef stream, const void* shard) const;
  /// The slot that has this run's shards.
  [[nodiscard]] int slot() const noexcept { return slot_; }
  /// Call after the last reader of the shards in this slot, in stream order: the peers may push into it again.
  void finish(StreamRef stream, int slot) const;

 private:
  [[nodiscard]] std::byte* rows() const {
    if (meeting_) return meeting_.memory(team_.rank());
    return lanes_.bytes() != 0 ? gathered_->data_as<std::byte>() : slots_.local(slot_);
  }
  void gather_by_mail(StreamRef stream, const void* shard) const;
  /// Stores the own shard into all ranks' memory.
  void gather_in_meeting(StreamRef stream, const void* shard) const;
  /// Pushes to all peers in one unordered batch, if all shards are awaited together.
  void push_at_once(StreamRef communication, const void* shard) const;
  /// In a graph the copies follow each other. Signals by copy engines do not hold up the next copy there.
  void push_captured(StreamRef communication, const void* shard);
  /// Pushes part by part, each with its signal, in the order in which parts are awaited.
  void push_in_turn(StreamRef communication, const void* shard) const;
  [[nodiscard]] Copy to(int peer, const void* shard, const Shard& rows) const;
  [[nodiscard]] Copy to_own_place(const void* shard) const;
  [[nodiscard]] int owner(const ShardPart& part) const { return slots_.peers()[static_cast<std::size_t>(part.shard)]; }
  [[nodiscard]] Shard own_rows() const { return shard_of(m_, team_.size(), team_.rank()); }

  Team team_;
  MeetingPlace meeting_;        ///< large gathers in one kernel
  MailLanes lanes_;             ///< small gathers in one kernel
  Reclaimed<Buffer> gathered_;  ///< what arrived by lanes_
  Slots slots_;
  std::vector<ShardGroup> groups_;
  bool counts_ahead_;  ///< pushes' signals are counted in advance: a kernel that counts may find no free SM
  std::optional<SideStream> signals_;  ///< of `push_captured`; none if there is nothing to gain
  std::size_t row_bytes_;
  std::optional<int> sms_;
  std::int64_t m_ = 0;
  int slot_ = 0;
};

}  // namespace tandem
