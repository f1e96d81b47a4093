// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "tandem/device/event.hpp"
#include "tandem/memory/symmetric_memory.hpp"

namespace tandem::examples {

/// Times work on a stream over a team: medians of the slowest rank's time.
class Timing {
 public:
  /// Collective. Before each run the device rests, idle, for `rest`. A GPU at its power limit runs the faster the
  /// longer it has rested: two programs are comparable only if both rest equally long, and without rest, one that
  /// leaves the GPU idle while it queues its next kernel has an advantage.
  Timing(const Team& team, StreamRef stream, std::chrono::milliseconds rest);

  struct Body {
    std::function<void()> before;  ///< before each run, after the rest; not timed
    std::function<void()> run;
  };

  /// Collective. Runs all bodies in turns, so that all see the same clocks: `warmup` times untimed, then `iterations`
  /// times, each after a barrier of the team's streams. Returns each body's median in seconds. Measured by events on
  /// CUDA, and on the host by a clock around the run and its synchronization.
  [[nodiscard]] std::vector<double> in_turns(const std::vector<Body>& bodies, int warmup, int iterations);

 private:
  void run(const Body& body);
  /// The seconds of each run since the last call, on its slowest rank.
  [[nodiscard]] std::vector<double> collect();

  struct Pair {
    Event begin;
    Event end;
  };
  Team team_;
  StreamRef stream_;
  std::chrono::milliseconds rest_;
  SymmetricMemory pad_;
  std::vector<Pair> events_;  // created when first needed, then reused
  std::size_t used_ = 0;
  std::vector<double> seconds_;
};

}  // namespace tandem::examples
