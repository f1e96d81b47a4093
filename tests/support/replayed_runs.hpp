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

/// Runs of operations that are captured into one graph, and replayed thousands of times with random ranks held up at
/// random points; now and then all are queued one by one instead. Each run has two sets of inputs, which it takes in
/// turns, so that what is left over from one shows in the other. Every replay adds what it made to totals on the
/// device: one wrong element of one replay is seen in the end, and that costs no look of the host's at each.
/// Collective: all ranks call everything alike.
class ReplayedRuns {
 public:
  explicit ReplayedRuns(const Team& team);

  [[nodiscard]] StreamRef stream() const { return stream_; }
  /// `run(set)` queues a run on `stream()` that makes f32 or bf16 `result` of inputs 0 or 1: whole numbers, small
  /// enough that f32 has the totals of some hundreds exactly. What an eager run makes of them is what every replay has
  /// to make.
  void add(std::string what, const TensorView& result, std::function<void(int set)> run);
  /// Captures all runs, replays them so often, and checks each element of the totals now and then.
  void replay(int times) { replay_beside({{this}}, times); }
  /// The same of several teams', each on a stream of its own, beside each other: any of them is launched first.
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
  /// The result in f32, where it is kept no longer than the next step of the stream.
  [[nodiscard]] const void* in_f32(const Run& run);
  /// Those of so many replays since the last check. False if something was wrong.
  [[nodiscard]] bool check_totals(int replays) const;

  Team team_;
  Stream stream_;
  std::vector<Run> runs_;
};

}  // namespace tandem::testing
