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

/// The middle value (of an even number, the mean of the middle two); 0 for none.
[[nodiscard]] double median(std::vector<double> samples);
/// The smallest sample that `percent` of a hundred samples do not exceed; 0 for none.
[[nodiscard]] double percentile(std::vector<double> samples, double percent);

/// How often something is run to be timed.
struct Repetitions {
  int iterations = 20;
  int warmup = 5;          ///< runs before them
  int graph_launches = 0;  ///< 0: each iteration is queued by itself; else all are captured in a CUDA graph, and this
                           ///< counts its launches
};

/// What is queued, and timed, at once: some runs of one body.
struct QueuedRuns {
  std::function<void()> queue;
  int runs = 1;
};

/// "20 iterations, 5 for warm-up", …
[[nodiscard]] std::string to_string(const Repetitions& repetitions);

/// Times runs of operations over a team. Each run begins behind a barrier of the team's streams. On CUDA, events take
/// the time and runs are queued one behind the other; on the host, the clock around the run and its synchronisation.
class Timing {
 public:
  /// Collective. With `blocking`, the host waits for each run on CUDA as well. `clocks`, which live as long as this,
  /// are read while what `in_turns` and all below it have queued runs.
  Timing(const Team& team, StreamRef stream, bool blocking, SmClocks* clocks = nullptr);

  /// Times one run of `body`, which queues work on the stream. Collective.
  void measure(const std::function<void()>& body);
  /// Times `rounds` runs of each body, in turns, so that all of them meet the same clocks. The seconds of each body's
  /// runs, as the slowest rank took them. Collective.
  [[nodiscard]] std::vector<std::vector<double>> in_turns(std::span<const std::function<void()>> bodies, int rounds);
  /// What `repeated` times of `body`: one run, or if `repetitions` are of graphs, the launch of one that holds all
  /// iterations.
  [[nodiscard]] QueuedRuns queued(const std::function<void()>& body, const Repetitions& repetitions) const;
  /// Times each of what `queued` gave for these repetitions, in turns and behind runs for warm-up. The seconds of one
  /// run; of a graph's launch each counts as one part of it. Collective.
  [[nodiscard]] std::vector<std::vector<double>> repeated(std::span<const QueuedRuns> all,
                                                          const Repetitions& repetitions);
  /// The medians of each body's times in as many rounds, of `least` to `most`, as fit into `limit` seconds. Collective.
  [[nodiscard]] std::vector<double> medians_in_turns(std::span<const std::function<void()>> bodies, double limit,
                                                     int least, int most);
  /// Runs `body` with the ranks in step, and leaves the trace of that, and of nothing else, for write_timeline.
  /// Collective.
  void trace(const std::function<void()>& body);
  /// Seconds of each run measured since the last call, as the slowest rank took them. Collective.
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

/// Each rank's numbers, in team order. Collective; equally many on all.
[[nodiscard]] std::vector<std::vector<double>> gather_numbers(const Team& team, const std::vector<double>& mine);
/// Each rank's text, in team order. Collective.
[[nodiscard]] std::vector<std::string> gather_texts(const Team& team, const std::string& mine);

}  // namespace tandem::tools
