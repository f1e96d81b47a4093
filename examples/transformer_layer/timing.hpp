// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "tandem/device/event.hpp"
#include "tandem/memory/symmetric_memory.hpp"

namespace tandem::transformer_layer {

/// Times work on a stream over a team: medians of the slowest rank's time.
class Timing {
 public:
  /// Collective. In front of each run the device rests so long, idle. A GPU at its power limit runs the faster the
  /// longer it has rested, so that what two programs do is comparable where both rest alike, and one that leaves the
  /// GPU idle while it queues its next kernel has an advantage where neither does.
  Timing(const Team& team, StreamRef stream, std::chrono::milliseconds rest);

  struct Body {
    std::function<void()> before;  ///< in front of each run, behind the rest; not timed
    std::function<void()> run;
  };

  /// Collective. Runs all bodies in turns, so that all meet the same clocks: `warmup` times untimed, then `iterations`
  /// times, each behind a barrier of the team's streams. Gives each body's median, in seconds. On CUDA, events take the
  /// time; on the host, the clock around the run and its synchronisation.
  [[nodiscard]] std::vector<double> in_turns(const std::vector<Body>& bodies, int warmup, int iterations);

 private:
  void run(const Body& body);
  /// Each run's seconds since the last call, as the slowest rank took them.
  [[nodiscard]] std::vector<double> collect();

  struct Pair {
    Event begin;
    Event end;
  };
  Team team_;
  StreamRef stream_;
  std::chrono::milliseconds rest_;
  SymmetricMemory pad_;
  std::vector<Pair> events_;  // made when first needed, and used again
  std::size_t used_ = 0;
  std::vector<double> seconds_;
};

}  // namespace tandem::transformer_layer
