// SPDX-License-Identifier: Apache-2.0
#include "linear/shard_gather.hpp"

#include "tandem/base/checked.hpp"
#include "tandem/device/trace_range.hpp"

namespace tandem {
namespace {

// What ranks signal to each other.
constexpr std::uint32_t arrived = 0;  // a part of my shard is in your slot
constexpr std::uint32_t opened = 1;   // I have come so far
constexpr std::uint32_t signals = 2;

}  // namespace

ShardGather::ShardGather(const Team& team, std::int64_t max_m, std::size_t row_bytes, int groups,
                         std::uint32_t operation)
    : team_(team),
      slots_(team, checked_mul(static_cast<std::size_t>(max_m), row_bytes), signals, operation),
      groups_(arriving_groups(team.size() - 1, groups)),
      row_bytes_(row_bytes) {}

void ShardGather::open(StreamRef stream) const { slots_.exchange(stream, 0, opened); }

void ShardGather::start(StreamRef communication, const void* shard, std::int64_t m) {
  m_ = m;
  slot_ = slots_.next();
  const TraceRange range(team_.device(), communication, "push own shard", TraceKind::communication);
  if (groups_.size() > 1) {
    push_in_turn(communication, shard);
  } else {
    push_at_once(communication, shard);
  }
}

void ShardGather::push_at_once(StreamRef communication, const void* shard) const {
  std::vector<Copy> copies;
  for (const int peer : slots_.peers()) copies.push_back(to(peer, shard, own_rows()));
  slots_.take(communication, slot_, slots_.peers());
  team_.device().copy_batch(communication, copies);
  slots_.signal(communication, slot_, slots_.peers(), arrived);
}

void ShardGather::push_in_turn(StreamRef communication, const void* shard) const {
  std::vector<Push> pushes;
  for (const ShardGroup& group : groups_) {
    for (const ShardPart& part : group) {
      // Who has this rank's shard as its first is one step behind, and so on.
      const int peer = slots_.peers()[slots_.peers().size() - 1 - static_cast<std::size_t>(part.shard)];
      pushes.push_back({.copy = to(peer, shard, part_rows(m_, team_.size(), team_.rank(), part)),
                        .put = slots_.signal_to(slot_, peer, arrived)});
    }
  }
  slots_.take(communication, slot_, slots_.peers());
  team_.device().push(communication, pushes);
}

void ShardGather::wait(StreamRef stream, const ShardGroup& group) const {
  std::vector<int> owners;
  for (const ShardPart& part : group) owners.push_back(owner(part));
  slots_.wait(stream, slot_, owners, arrived);
}

Copy ShardGather::to(int peer, const void* shard, const RowRange& rows) const {
  const auto bytes = [this](std::int64_t count) { return static_cast<std::size_t>(count) * row_bytes_; };
  return {.dst = slots_.remote(slot_, peer) + bytes(rows.begin),
          .src = static_cast<const std::byte*>(shard) + bytes(rows.begin - own_rows().begin),
          .bytes = bytes(rows.count),
          .path = Path::link};
}

void ShardGather::keep_own(StreamRef stream, const void* shard) const {
  const RowRange rows = own_rows();
  team_.device().copy(
      stream, {.dst = row(rows.begin), .src = shard, .bytes = static_cast<std::size_t>(rows.count) * row_bytes_});
}

}  // namespace tandem
