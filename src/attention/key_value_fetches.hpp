// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tandem/collective/shard.hpp"
#include "tandem/device/buffer.hpp"
#include "tandem/device/event.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

#include "attention/attention_schedule.hpp"
#include "attention/key_value_rows.hpp"
#include "collective/side_stream.hpp"
#include "memory/owners.hpp"
#include "memory/slots.hpp"
#include "team/reclaimed.hpp"

namespace tandem {

/// The keys and values of other ranks, fetched on a stream of their own into two buffers that take turns: while work
/// reads one, the next fetch fills the other.
class KeyValueFetches {
 public:
  /// Collective. `longest` is the largest number of tokens that a rank has.
  KeyValueFetches(const Team& team, const AttentionSchedule& schedule, KeyValueRows rows, std::int64_t longest,
                  std::uint32_t operation);

  /// Begins a run: keeps this rank's keys and values where peers read them, waits until those that are to be fetched
  /// are there, too, and queues the first two fetches.
  void start(const void* k, const void* v, StreamRef stream);
  /// What fetch `i` has fetched, for work queued on `stream` from now on, until `release`. Call in order.
  [[nodiscard]] KeysAndValues wait(std::size_t i, StreamRef stream) const;
  /// Work queued on `stream` until now was the last to read fetch `i`: queues the fetch after the next.
  void release(std::size_t i, StreamRef stream);
  /// Ends a run, after the last `release`: the ranks from which this one has fetched may reuse that memory.
  void finish(StreamRef stream);
  /// Work queued on `stream` from now on starts behind all fetches.
  void rejoin(StreamRef stream) { beside_.rejoin(stream); }

  [[nodiscard]] Owners owners() const;
  [[nodiscard]] std::string describe() const;

 private:
  struct Fetched {
    Reclaimed<Buffer> memory;
    Event arrived;
    Event read;
  };

  [[nodiscard]] Fetched& buffer(std::size_t i) { return buffers_[i % buffers_.size()]; }
  [[nodiscard]] const Fetched& buffer(std::size_t i) const { return buffers_[i % buffers_.size()]; }
  void fetch(std::size_t i);

  Team team_;
  KeyValueRows rows_;
  std::int64_t tokens_;            ///< this rank's
  std::size_t values_at_;          ///< in a slot
  std::size_t fetched_values_at_;  ///< in a buffer
  std::vector<AttentionSchedule::Fetch> fetches_;
  std::vector<int> readers_;  ///< the ranks that fetch from this one
  std::vector<int> writers_;  ///< those from which this one fetches
  Slots slots_;               ///< each rank's own keys and values
  std::vector<Fetched> buffers_;
  SideStream beside_;
  int slot_ = 0;
};

}  // namespace tandem
