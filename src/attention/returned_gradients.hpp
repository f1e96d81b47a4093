// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tandem/device/buffer.hpp"
#include "tandem/device/event.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/memory/signal_pad.hpp"
#include "tandem/memory/symmetric_memory.hpp"
#include "tandem/team/team.hpp"

#include "attention/attention_schedule.hpp"
#include "attention/key_value_rows.hpp"
#include "collective/side_stream.hpp"
#include "memory/owners.hpp"
#include "team/reclaimed.hpp"

namespace tandem {

/// The gradients of keys and values that a rank has computed for the ranks that have them. Each rank receives them in
/// two places that take turns, in the order of its schedule's `returns`: the rank that sends return i + 2 gets a credit
/// when return i has been read, so memory does not grow with the number of ranks.
///
/// A return that comes from `distance` ranks away is computed in its sender's step of that distance, and sent beside
/// the next step. It is read before the reader's step of `distance + 2`, when it has arrived if all ranks are equally
/// fast. No order of ranks can deadlock: to reach a step, a rank waits only for what others computed two steps before.
class ReturnedGradients {
 public:
  /// Collective. What this rank sends goes to the ranks of `schedule.fetches()`; `spec` and the team give the others'
  /// schedules.
  ReturnedGradients(const Team& team, const ContextParallelSpec& spec, const AttentionSchedule& schedule,
                    KeyValueRows rows, std::uint32_t operation);

  /// Where the gradients of what fetch `i` fetched belong: work queued on `stream` from now on may write them. In
  /// order.
  [[nodiscard]] KeysAndValues open(std::size_t i, StreamRef stream);
  /// Sends them, behind the work that is queued on `stream` until now.
  void send(std::size_t i, StreamRef stream);
  /// Return `i` of this rank's keys, for work queued on `stream` from now on, until `release`. In order.
  [[nodiscard]] KeysAndValues wait(std::size_t i, StreamRef stream) const;
  void release(std::size_t i, StreamRef stream) const;
  /// Work queued on `stream` from now on starts behind all that is sent.
  void rejoin(StreamRef stream) { beside_.rejoin(stream); }

  [[nodiscard]] Owners owners() const;
  [[nodiscard]] std::string describe() const;

 private:
  struct Sent {
    Reclaimed<Buffer> memory;
    Event sent;
  };
  struct Sending {
    int rank;
    int place;  ///< where that rank receives it
    std::int64_t keys;
  };

  void grant(StreamRef stream, std::size_t i) const;
  [[nodiscard]] std::byte* place_at(int rank, int place) const {
    return memory_.remote(rank) + static_cast<std::size_t>(place) * place_bytes_;
  }

  Team team_;
  KeyValueRows rows_;
  std::vector<Sending> sendings_;  ///< by fetch
  std::vector<AttentionSchedule::Return> returns_;
  std::size_t place_bytes_;
  SymmetricMemory memory_;
  SignalPad pad_;
  std::vector<Sent> buffers_;
  SideStream beside_;
};

}  // namespace tandem
