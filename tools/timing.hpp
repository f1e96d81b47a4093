// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/device/event.hpp"
#include "tandem/memory/symmetric_memory.hpp"

namespace tandem::tools {

class SmClocks;

/// The middle value (for an even number of samples, the mean of the middle two); 0 for none.
[[nodiscard]] double median(std::vector<double> samples);
/// The smallest sample that at least `percent` % of the samples do not exceed; 0 for none.
[[nodiscard]] double percentile(std::vector<double> samples, double percent);

/// How often something is run for a measurement.
struct Repetitions {
  int iterations = 20;
  int warmup = 5;          ///< untimed runs before the iterations
  int graph_launches = 0;  ///< 0: each iteration is queued by itself; else all are captured in one CUDA graph, which is
                           ///< launched this many times
};

/// What is queued and timed as one: several runs of a body.
struct QueuedRuns {
  std::function<void()> queue;
  int runs = 1;
};

/// "20 iterations, 5 for warm-up", …
[[nodiscard]] std::string to_string(const Repetitions& repetitions);

/// Times runs of operations on a team. Each run starts after a barrier of the team's streams. On CUDA, runs are queued
/// without waiting in between and timed by events; on the host, by the clock around the run and its synchronization.
class Timing {
 public:
  /// Collective. With `blocking`, the host waits for each run on CUDA, too. `clocks`, which must outlive this, are
  /// sampled by `in_turns` (and so by `repeated` and `medians_in_turns`) once it has queued its runs.
  Timing(const Team& team, StreamRef stream, bool blocking, SmClocks* clocks = nullptr);

  /// Times one run of `body`, which queues work on the stream. Collective.
  void measure(const std::function<void()>& body);
  /// Times `rounds` runs of each body, in turns, so that all bodies experience the same clocks. Returns the seconds of
  /// each body's runs, as the slowest rank measured them. Collective.
  [[nodiscard]] std::vector<std::vector<double>> in_turns(std::span<const std::function<void()>> bodies, int rounds);
  /// What `repeated` should time for `body`: one run, or with graph launches, the launch of a graph that contains all
  /// iterations.
  [[nodiscard]] QueuedRuns queued(const std::function<void()>& body, const Repetitions& repetitions) const;
  /// Times everything that `queued` returned for these repetitions, in turns, after warm-up runs. Returns the seconds
  /// of each run; for a graph, each launch's time divided by its number of runs. Collective.
  [[nodiscard]] std::vector<std::vector<double>> repeated(std::span<const QueuedRuns> all,
                                                          const Repetitions& repetitions);
  /// The median time of each body, over `least` to `most` rounds, as many as fit into `limit` seconds. Collective.
  [[nodiscard]] std::vector<double> medians_in_turns(std::span<const std::function<void()>> bodies, double limit,
                                                     int least, int most);
  /// Runs `body` with the ranks synchronized, and leaves the trace of only that for write_timeline. Collective.
  void trace(const std::function<void()>& body);
  /// Seconds of each run measured since the last call, as the slowest rank measured them. Collective.
  [[nodiscard]] std::vector<double> collect();

 private:
  struct Pair {
    Event begin;
    Event end;
  };
  Team team_;
  StreamRef stream_;
  bool events_;
  bool blocking_;
  SmClocks* clocks_;
  SymmetricMemory pad_;
  std::vector<Pair> pairs_;
  std::size_t used_ = 0;
  std::vector<double> seconds_;
};

/// Each rank's numbers, in team order. Collective; every rank must pass equally many.
[[nodiscard]] std::vector<std::vector<double>> gather_numbers(const Team& team, const std::vector<double>& mine);
/// Each rank's text, in team order. Collective.
[[nodiscard]] std::vector<std::string> gather_texts(const Team& team, const std::string& mine);

}  // namespace tandem::tools
