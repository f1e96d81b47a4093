// SPDX-License-Identifier: Apache-2.0
#include "linear/shard_gather.hpp"

#include <algorithm>

#include "tandem/device/trace_range.hpp"

#include "base/checked.hpp"
#include "base/format.hpp"
#include "collective/engines.hpp"
#include "collective/plan_buffer.hpp"
#include "collective/tuning.hpp"
#include "linear/algorithms.hpp"

namespace tandem {
namespace {

// What ranks signal to each other.
constexpr std::uint32_t arrived = 0;  // a part of my shard is in your slot
constexpr std::uint32_t opened = 1;   // I have reached `open`
constexpr std::uint32_t signals = 2;

/// Bytes of the longest shard of `m` rows.
std::size_t shard_bytes(const Team& team, std::int64_t m, std::size_t row_bytes) {
  return checked_mul(static_cast<std::size_t>(shard_of(m, team.size(), 0).count), row_bytes);
}

/// Whether all shards are awaited together, and kernels may gather them.
bool takes_kernels(const LinearChoice& choice) { return choice.groups == 0 && choice.sms != 0; }

MeetingPlace meeting_of(const Team& team, std::int64_t max_m, std::size_t row_bytes, const LinearChoice& choice,
                        ShardGather::Meanwhile meanwhile, std::uint32_t operation) {
  const std::size_t shard = shard_bytes(team, max_m, row_bytes);
  const CollectiveTuning& tuning = collective_tuning(team.device().id().type);
  const bool may = team.device().meets() && takes_kernels(choice) && kernel_takes_rows(team.size(), row_bytes);
  if (!may || meanwhile == ShardGather::Meanwhile::something ||
      !direct_shard_wins(team.size(), shard, direct_copy_above(tuning, team.size()), tuning.direct_gather_bytes)) {
    return {};
  }
  return {team, choice.sms.value_or(MeetingPlace::most_blocks), operation,
          checked_mul(static_cast<std::size_t>(max_m), row_bytes)};
}

MailLanes lanes_of(const Team& team, std::int64_t max_m, std::size_t row_bytes, const LinearChoice& choice,
                   std::uint32_t operation) {
  const std::size_t shard = shard_bytes(team, max_m, row_bytes);
  const bool small = shard <= one_kernel_limit(team.device(), team.size()).shard;
  if (!takes_kernels(choice) || !small || shard == 0) return {};
  return {team, shard, choice.sms.value_or(MailLanes::most_lanes), operation};
}

/// Whether each peer gets its data in one push: then the one signal to it can be counted before the GEMMs.
bool in_whole_shards(std::span<const ShardGroup> groups) {
  return std::ranges::all_of(groups, [](const ShardGroup& group) {
    return std::ranges::all_of(group, [](auto& part) { return part.of == 1; });
  });
}

}  // namespace

ShardGather::ShardGather(const Team& team, std::int64_t max_m, std::size_t row_bytes, const LinearChoice& choice,
                         Meanwhile meanwhile, Kept kept, std::uint32_t operation)
    : team_(team),
      meeting_(meeting_of(team, max_m, row_bytes, choice, meanwhile, operation)),
      lanes_(meeting_ ? MailLanes() : lanes_of(team, max_m, row_bytes, choice, operation)),
      gathered_(team,
                plan_buffer(team, lanes_.bytes() == 0 ? 0 : checked_mul(static_cast<std::size_t>(max_m), row_bytes))),
      slots_(team,
             is_one_kernel() || (team.size() == 1 && kept == Kept::no)
                 ? 0
                 : checked_mul(static_cast<std::size_t>(max_m), row_bytes),
             signals, operation),
      groups_(arriving_groups(team.size() - 1, std::max(choice.groups, 1))),
      counts_ahead_((choice.groups > 0 || meanwhile == Meanwhile::something) && in_whole_shards(groups_)),
      row_bytes_(row_bytes),
      sms_(choice.sms) {
  if (!is_one_kernel() && counts_ahead_ && groups_.size() == 1 && team.size() > 2 && engines_copy(team.device()))
    signals_.emplace(team);
}

std::string ShardGather::communication() const {
  if (slots_.peers().empty()) return "none";
  if (!is_one_kernel()) return format("pushes by {}", copied_by(team_.device(), sms_));
  return format("one kernel on at most {} SMs",
                meeting_ ? static_cast<std::size_t>(meeting_.blocks()) : lanes_.lanes());
}

Owners ShardGather::owners() const {
  Owners owners = slots_.owners();
  append(owners, meeting_.owners());
  append(owners, lanes_.owners());
  owners.push_back(gathered_.shared());
  return owners;
}

void ShardGather::open(StreamRef stream) const {
  if (!is_one_kernel()) slots_.exchange(stream, 0, opened);
}

void ShardGather::finish(StreamRef stream, int slot) const {
  if (!is_one_kernel()) slots_.grant(stream, slot, slots_.peers());
}

void ShardGather::take_slot(StreamRef stream) {
  if (is_one_kernel()) return;
  slot_ = slots_.next();
  if (counts_ahead_) {
    slots_.take_and_count(stream, slot_, slots_.peers(), arrived);
  } else {
    slots_.take(stream, slot_, slots_.peers());
  }
}

void ShardGather::start(StreamRef communication, const void* shard, std::int64_t m, bool captured) {
  m_ = m;
  if (meeting_) return gather_in_meeting(communication, shard);
  if (is_one_kernel()) return gather_by_mail(communication, shard);
  const TraceRange range(team_.device(), communication, "push own shard", TraceKind::communication);
  if (groups_.size() > 1) {
    push_in_turn(communication, shard);
  } else if (captured && signals_) {
    push_captured(communication, shard);
  } else {
    push_at_once(communication, shard);
  }
}

void ShardGather::gather_by_mail(StreamRef stream, const void* shard) const {
  const auto bytes = [this](std::int64_t rows) { return rows * static_cast<std::int64_t>(row_bytes_); };
  const std::int64_t longest = bytes(shard_of(m_, team_.size(), 0).count);
  if (longest == 0) return;
  const TraceRange range(team_.device(), stream, "gather shards", TraceKind::exchange);
  lanes_.exchange(stream, {.form = MailedForm::all_gather,
                           .input = shard,
                           .out = row(0),
                           .count = bytes(m_),
                           .shard = longest,
                           .length = longest,
                           .dtype = u8});
}

void ShardGather::gather_in_meeting(StreamRef stream, const void* shard) const {
  if (m_ == 0) return;
  const TraceRange range(team_.device(), stream, "gather shards", TraceKind::exchange);
  const Shard rows = own_rows();
  const std::size_t bytes = static_cast<std::size_t>(rows.count) * row_bytes_;
  std::vector<void*> places;
  for (const int peer : slots_.peers()) {
    places.push_back(meeting_.memory(peer) + static_cast<std::size_t>(rows.begin) * row_bytes_);
  }
  places.push_back(row(rows.begin));
  meeting_.spread(stream, {.source = shard, .destinations = places, .bytes = bytes},
                  shard_bytes(team_, m_, row_bytes_));
}

void ShardGather::push_at_once(StreamRef communication, const void* shard) const {
  std::vector<Copy> copies;
  for (const int peer : slots_.peers()) copies.push_back(to(peer, shard, own_rows()));
  team_.device().copy_batch(communication, copies);
  if (counts_ahead_) {
    slots_.signal_counted(communication, slot_, slots_.peers(), arrived);
  } else {
    slots_.signal(communication, slot_, slots_.peers(), arrived);
  }
}

void ShardGather::push_captured(StreamRef communication, const void* shard) {
  rejoin_if_thrown(*signals_, communication, [&] {
    for (const int& peer : slots_.peers()) {
      team_.device().copy(communication, to(peer, shard, own_rows()));
      signals_->follow(communication);
      slots_.signal_counted(signals_->ref(), slot_, std::span(&peer, 1), arrived);
    }
  });
  signals_->rejoin(communication);
}

void ShardGather::push_in_turn(StreamRef communication, const void* shard) const {
  std::vector<Push> pushes;
  for (const ShardGroup& group : groups_) {
    for (const ShardPart& part : group) {
      // The previous rank waits for this rank's shard first, and so on.
      const int peer = slots_.peers()[slots_.peers().size() - 1 - static_cast<std::size_t>(part.shard)];
      pushes.push_back({.copy = to(peer, shard, part_rows(m_, team_.size(), team_.rank(), part)),
                        .put = slots_.signal_to(slot_, peer, arrived)});
      pushes.back().put.counted = counts_ahead_;
    }
  }
  team_.device().push(communication, pushes, team_.control());
}

void ShardGather::wait(StreamRef stream, const ShardGroup& group) const {
  if (is_one_kernel()) return;
  std::vector<int> owners;
  for (const ShardPart& part : group) owners.push_back(owner(part));
  slots_.wait(stream, slot_, owners, arrived);
}

Copy ShardGather::to(int peer, const void* shard, const Shard& rows) const {
  const auto bytes = [this](std::int64_t count) { return static_cast<std::size_t>(count) * row_bytes_; };
  return {.dst = slots_.remote(slot_, peer) + bytes(rows.begin),
          .src = static_cast<const std::byte*>(shard) + bytes(rows.begin - own_rows().begin),
          .bytes = bytes(rows.count),
          .path = Path::link};
}

Copy ShardGather::to_own_place(const void* shard) const {
  const Shard rows = own_rows();
  return {.dst = row(rows.begin), .src = shard, .bytes = static_cast<std::size_t>(rows.count) * row_bytes_};
}

void ShardGather::keep_own(StreamRef stream, const void* shard) const {
  if (is_one_kernel()) return;
  const Copy copy = to_own_place(shard);
  enqueue(team_.device(), stream, std::span(&copy, 1), sms_);
}

void ShardGather::keep_own_beside(StreamRef stream, const void* shard) const {
  if (is_one_kernel()) return;
  const Copy copy = to_own_place(shard);
  team_.device().copy_batch(stream, std::span(&copy, 1));  // a batch goes to engines where possible
}

}  // namespace tandem
