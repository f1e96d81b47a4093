// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/linear/linear_spec.hpp"
#include "tandem/memory/slots.hpp"

#include "linear/communication_stream.hpp"

namespace tandem {

/// The gathering half of an operation: every rank pushes its shard of rows into a slot of each peer, in rank-rotated
/// order, and each peer multiplies what has arrived while the rest is on its way. The own shard stays where the caller
/// has it.
class ShardGather {
 public:
  /// Collective. At most `max_m` rows of `row_bytes` over all ranks.
  ShardGather(const Team& team, std::int64_t max_m, std::size_t row_bytes, std::uint32_t operation);

  /// Starts a run of `m` rows whose own shard is `shard`: pushes on `communication`.
  void start(StreamRef communication, const void* shard, std::int64_t m);
  /// The others, in the order in which their shards arrive: who is one step behind pushed here first.
  [[nodiscard]] std::span<const int> arrivals() const noexcept { return arrivals_; }
  /// What is queued on `stream` from now on may read these ranks' shards.
  void wait(StreamRef stream, std::span<const int> sources) const { slots_.wait(stream, slot_, sources, 0); }
  /// Where row `row` of this run lies. The own shard's place is free until `keep_own` fills it.
  [[nodiscard]] std::byte* row(std::int64_t row) const {
    return slots_.local(slot_) + static_cast<std::size_t>(row) * row_bytes_;
  }
  /// Copies the own shard to its place among the others.
  void keep_own(StreamRef stream, const void* shard) const;
  /// After the last reader of this run's shards, in stream order: the peers may push into this slot again.
  void finish(StreamRef stream) const { slots_.grant(stream, slot_, slots_.peers()); }

 private:
  Team team_;
  Slots slots_;
  std::vector<int> arrivals_;
  std::size_t row_bytes_;
  std::int64_t m_ = 0;
  int slot_ = 0;
};

}  // namespace tandem
