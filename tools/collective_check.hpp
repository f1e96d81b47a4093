// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/device/stream.hpp"
#include "tandem/team/team.hpp"

#include "tools/collective_run.hpp"
#include "tools/timing.hpp"

namespace tandem::tools {

/// The inputs and expected outputs of a collective for all ranks, which every rank can compute. Sums are exact in every
/// dtype.
class CollectiveData {
 public:
  CollectiveData(const CollectiveProblem& problem, std::uint64_t seed);

  [[nodiscard]] const CollectiveProblem& problem() const noexcept { return problem_; }
  [[nodiscard]] std::vector<std::byte> input(int rank) const;
  /// `in_place`: how many in-place runs there were, each on the previous one's result; 1 also for out-of-place.
  [[nodiscard]] std::vector<std::byte> output(int rank, int in_place = 1) const;

 private:
  CollectiveProblem problem_;
  std::vector<std::uint64_t> keys_;  // each rank's
};

/// How many elements, of `element` bytes each, differ.
[[nodiscard]] std::int64_t different_elements(std::span<const std::byte> got, std::span<const std::byte> wanted,
                                              std::size_t element);

/// Collective. Queues `runs` of the collective once, with fresh input and poisoned outputs, so that an earlier result
/// cannot be mistaken for this one, and counts the wrong elements on all ranks. `corrupted`: first makes one of this
/// rank's elements wrong (see `corrupts`).
[[nodiscard]] std::int64_t wrong_elements(const Team& team, CollectiveRun& run, const CollectiveData& data,
                                          const QueuedRuns& runs, StreamRef stream, bool corrupted);

}  // namespace tandem::tools
