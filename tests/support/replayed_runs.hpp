// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/tensor_view.hpp"
#include "tandem/device/graph.hpp"
#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

#include "support/guarded_tensor.hpp"

namespace tandem::testing {

/// Runs of operations that are captured into one graph, and replayed thousands of times with random ranks delayed at
/// random points; now and then all are queued eagerly instead. Each run alternates between two sets of inputs, so that
/// stale data of one is detected in the other. Every replay adds its results to totals on the device: one wrong element
/// of one replay is still found in the end, without the host comparing each replay. Collective: all ranks make the same
/// calls.
class ReplayedRuns {
 public:
  explicit ReplayedRuns(const Team& team);

  [[nodiscard]] StreamRef stream() const { return stream_; }
  /// `run(set)` queues a run on `stream()` that computes the f32 or bf16 `result` from input set 0 or 1: whole numbers,
  /// so small that f32 represents the totals of some hundreds of runs exactly. Every replay must reproduce an eager
  /// run's result.
  void add(std::string what, const TensorView& result, std::function<void(int set)> run);
  /// Captures all runs, replays them `times` times, and regularly checks each element of the totals.
  void replay(int times) { replay_beside({{this}}, times); }
  /// Replays several teams' runs concurrently, each on its own stream, starting with a random one each time.
  static void replay_beside(std::span<ReplayedRuns* const> all, int times);

 private:
  static constexpr int sets = 2;
  struct Run {
    std::string what;
    TensorView result;
    std::function<void(int set)> queue;
    GuardedTensor widened;
    std::array<GuardedTensor, sets> eager;
    std::array<GuardedTensor, sets> total;
  };

  void run_eagerly();
  [[nodiscard]] Graph capture();
  void queue_all(std::uint64_t turn);
  void queue_with_totals(const Run& run, std::uint64_t delays);
  /// The result in f32, valid only for the next operation on the stream.
  [[nodiscard]] const void* in_f32(const Run& run);
  /// Checks, then clears, the totals of the `replays` since the last check. False if something was wrong.
  [[nodiscard]] bool check_totals(int replays) const;

  Team team_;
  Stream stream_;
  std::vector<Run> runs_;
};

}  // namespace tandem::testing
