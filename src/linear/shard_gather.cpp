// SPDX-License-Identifier: Apache-2.0
#include "linear/shard_gather.hpp"

#include "tandem/base/checked.hpp"
#include "tandem/device/trace_range.hpp"

namespace tandem {
namespace {

/// Below this many bytes a shard goes to all peers as one batch: a launch costs more than the way.
constexpr std::size_t batch_below = std::size_t{256} << 10;

}  // namespace

ShardGather::ShardGather(const Team& team, std::int64_t max_m, std::size_t row_bytes, std::uint32_t operation)
    : team_(team),
      slots_(team, checked_mul(static_cast<std::size_t>(max_m), row_bytes), 1, operation),
      row_bytes_(row_bytes) {
  for (int step = 1; step < team.size(); ++step) arrivals_.push_back((team.rank() + team.size() - step) % team.size());
}

void ShardGather::start(StreamRef communication, const void* shard, std::int64_t m) {
  m_ = m;
  slot_ = slots_.next();
  const RowRange rows = shard_rows(m, team_.size(), team_.rank());
  const std::size_t offset = static_cast<std::size_t>(rows.begin) * row_bytes_;
  const std::size_t bytes = static_cast<std::size_t>(rows.count) * row_bytes_;
  const std::span<const int> peers = slots_.peers();
  const auto to = [&](int peer) {
    return Copy{.dst = slots_.remote(slot_, peer) + offset, .src = shard, .bytes = bytes, .path = Path::link};
  };

  Device& device = team_.device();
  const TraceRange range(device, communication, "push own shard", TraceKind::communication);
  if (bytes < batch_below) {
    std::vector<Copy> copies;
    for (const int peer : peers) copies.push_back(to(peer));
    slots_.take(communication, slot_, peers);
    device.copy_batch(communication, copies);
    slots_.signal(communication, slot_, peers, 0);
    return;
  }
  for (const int& peer : peers) {
    const std::span<const int> one(&peer, 1);
    slots_.take(communication, slot_, one);
    device.copy(communication, to(peer));
    slots_.signal(communication, slot_, one, 0);
  }
}

void ShardGather::keep_own(StreamRef stream, const void* shard) const {
  const RowRange rows = shard_rows(m_, team_.size(), team_.rank());
  team_.device().copy(
      stream, {.dst = row(rows.begin), .src = shard, .bytes = static_cast<std::size_t>(rows.count) * row_bytes_});
}

}  // namespace tandem
